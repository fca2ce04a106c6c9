"""Finds the address of the server, and sends requests to it.

Start with `transport`.
"""
