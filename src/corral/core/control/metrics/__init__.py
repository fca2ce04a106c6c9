"""What Prometheus reads of a server: numbers that others keep, written down when they are asked for.

Who does the work counts it, in plain numbers. There is no registry, and nothing is computed before a scrape.
"""
