"""The deciding loop: a plan is made, tested against the newest view, and committed.

Start with `controller`.
"""
