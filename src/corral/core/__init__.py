"""What a decision needs, and what carries it out. No feature and no vendor is known here by name.

Start with `model`, then `scheduling.cycle` and `control.core`.
"""
