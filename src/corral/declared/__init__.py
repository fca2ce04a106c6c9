"""Derives what else is said of the annotated fields of the model's classes. It declares nothing itself.

Start reading at `fields`, and at `corral.core.model.field`, with which fields are annotated.
"""
