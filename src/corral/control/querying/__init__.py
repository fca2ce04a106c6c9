"""What a caller can ask. Nothing here changes anything.

Start with `queries`; `rows` makes the rows of listings.
"""
