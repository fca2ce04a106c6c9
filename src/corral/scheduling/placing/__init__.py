"""Where a request goes: which nodes and devices could serve it, and which of them is best.

Start with `packing`, which places a whole job; `feasibility` tells what could ever fit, `scores` what is better.
"""
