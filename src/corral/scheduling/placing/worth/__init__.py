"""What free capacity is worth to the requests that are to be expected; the `corral` policy loses least of it.

Start with `values`; `learner` watches what arrives, `duals` turns it into prices.
"""
