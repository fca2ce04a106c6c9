"""Resource names that a cluster defines in ConfigMaps, as its other systems read and write them.

Start at `written.py`, which has the form of a definition.
"""
