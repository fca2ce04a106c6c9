"""Answers: their form, their errors, and those that are sent piece by piece.

Start with `errors`.
"""
