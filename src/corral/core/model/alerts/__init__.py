"""Alert rules, alerts, and the channels and notifications that bring them to people.

Start with `alert_rule`.
"""
