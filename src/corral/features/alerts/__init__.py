"""Alert rules, the alerts that fire, and silences.

Start with `state`, which says what becomes of an alert, then `alert_watch`, which evaluates the rules.
"""
