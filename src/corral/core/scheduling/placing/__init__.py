"""Where a request goes: which nodes and devices could serve it, and which of them is best.

Start with `packing`, which places a whole job. `scores` says which node is better, `feasibility` tests a start again.
"""
