"""The recorded past, run again under other policies.

Start with `replay`.
"""
