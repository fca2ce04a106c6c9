"""What is told of what happens, while it happens.

`rows_of_facts.py` says what a fact is to each topic, `journal_events.py` reads the journal so, and `device_samples.py`
has what devices are like now.
"""
