"""Alerts in the server: what rules are shown, each few seconds, and what people do about alerts.

Start reading at `alert_watch`. What fires is decided in `corral.alerts.state`.
"""
