"""Reports of simulations as text and pages.

Start with `report`.
"""
