"""Commands that report on use, cost and key figures.

Start with `report`.
"""
