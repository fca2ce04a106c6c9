"""Derives options, limits and schemas from the annotated fields of the model's classes. It declares nothing itself.

`corral.core.model.field` has the annotations of fields.
Start with `fields`.
"""
