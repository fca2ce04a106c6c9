"""Alerts without another program: which rules fire, and who is told.

Start reading at `message` (what is told) and `state` (the pure function by which alerts fire and are over).
"""
