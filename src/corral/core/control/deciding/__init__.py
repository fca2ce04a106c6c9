"""The scheduling loop: make a plan, test it against the newest view, and commit it.

Start with `controller`.
"""
