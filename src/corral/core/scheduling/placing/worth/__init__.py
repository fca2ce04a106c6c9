"""What free capacity is worth to the requests that are expected; the `corral` policy places where least worth is lost.

Start with `values`, the score. `arrival_mix` counts what arrives, and `learner` works out prices from it by solving a
linear program (`duals`, with `knapsack` as its inner step).
"""
