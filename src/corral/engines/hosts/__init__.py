"""Hosts that are joined to a server by SSH: each has an agent, reached through the `ssh` of the server's account.

Start reading at `engine.py`.
"""
