"""The routes that kube-scheduler calls: its extender.

Start at `scheduler_calls.py`.
"""
