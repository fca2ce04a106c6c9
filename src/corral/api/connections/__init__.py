"""Connections: who is at the other end, how many there may be, and how long they may take.

Start with `peer`.
"""
