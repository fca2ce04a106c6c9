"""Will a job run there? Driver against CUDA runtime, precision against hardware, memory against what a model needs.

Start with `rules`, which applies all of them to a `Workload` and a `Place` (both in `subject`); `detect` finds out what
a command needs, `file_facts` alone reads files, `estimate` computes the memory of a model.
"""
