"""Requests: who asks, what a body may hold, and how it is read.

Start with `reading`.
"""
