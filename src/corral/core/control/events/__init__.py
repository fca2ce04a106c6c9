"""The live events of a server: rows for clients while things happen.

`journal_events.py` reads events from the journal, and `device_events.py` finds changes of devices.
Start with `rows_of_facts.py`, which converts a fact to the rows of each topic.
"""
