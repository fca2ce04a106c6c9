"""Commands that prepare a Kubernetes cluster for a server.

Start at `commands.py`.
"""
