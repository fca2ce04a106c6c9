"""Alerts in the server: the periodic check of the alert rules, and the actions of users on alerts.

Start reading at `alert_watch`. `corral.alerts.state` decides which alerts fire.
"""
