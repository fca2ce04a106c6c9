"""Answers the questions of callers: listings, reasons, the allocation map. Changes nothing.

Start reading at `queries`; `listing_rows` makes the rows of listings.
"""
