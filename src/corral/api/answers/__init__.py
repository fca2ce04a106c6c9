"""The form of answers, the answers to errors, and answers that are sent piece by piece.

Start with `errors`.
"""
