"""Check whether a job can run: CUDA runtime against driver, precision against hardware, model against memory.

`detect` finds out what a command needs, `file_facts` alone reads files, and `estimate` computes the memory of a model.
Start with `rules`, which applies all rules to a `Workload` and a `Place` (both in `corral.core.ports.preflight`).
"""
