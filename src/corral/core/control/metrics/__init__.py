"""The metrics for Prometheus. Other parts count; this room writes the numbers as text at a scrape.

The part that does the work counts it, in plain numbers. There is no registry, and nothing is computed before a scrape.

Start with `scrape`.
"""
