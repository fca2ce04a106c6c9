"""Alert rules, alerts, and the channels and notifications by which people learn of them.

Start with `alert_rule`.
"""
