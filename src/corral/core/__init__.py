"""The core: values that a decision needs, the decision, and its execution. It knows no feature and no vendor by name.

Start with `model`, then `scheduling.cycle` and `control.core`.
"""
