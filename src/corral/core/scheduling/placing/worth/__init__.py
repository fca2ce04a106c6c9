"""The worth of free capacity to expected requests. The `corral` policy places where the least worth is lost.

`values` has the score. `arrival_mix` counts arrivals. `learner` computes prices from them by solving a linear program
(`duals`, with `knapsack` as its inner step).
Start with `values`.
"""
