"""Scripts of jobs: their header lines, including those of Slurm.

Start with `script`.
"""
