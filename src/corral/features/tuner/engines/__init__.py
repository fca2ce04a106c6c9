"""The inference servers that tasks deploy: their command lines and flags, presets, and the memory that they need.

Start with `inference_engine`.
"""
