"""Derives what else is said of the annotated fields of the model's classes. It declares nothing itself."""
