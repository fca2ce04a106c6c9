"""The core: values that a decision needs, the decision, and its execution. It imports no feature
and no vendor.

Start with `model`, then `scheduling.cycle` and `control.core`.
"""
