"""Scripts of jobs: their header lines, also those of Slurm.

Start with `script`.
"""
