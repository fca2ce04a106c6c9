"""Launches, follows and stops committed jobs on their nodes, and reconciles nodes with the ledger.

Start with `dispatcher`.
"""
