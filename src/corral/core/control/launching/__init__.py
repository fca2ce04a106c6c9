"""What was committed is launched on its nodes, followed and stopped; nodes are reconciled.

Start with `dispatcher`.
"""
