"""Servers as they run: put together from the rooms, as a process, and begun with an empty ledger.

Start with `server`.
"""
