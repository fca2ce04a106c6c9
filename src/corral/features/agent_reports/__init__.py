"""The route to which agents on the nodes of a cluster send their reports.

Start at `report_calls.py`.
"""
