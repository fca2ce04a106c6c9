"""Alerts without another program: decides which rules fire, and sends the messages.

Start with `message` (the content of a message) and `state` (the pure function that decides which alerts fire and end).
"""
