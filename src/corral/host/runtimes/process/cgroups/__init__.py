"""Control groups of jobs.

Start with `job_cgroups`.
"""
