"""Access to running jobs from outside (commands, input and signals), and jobs for work that others have started.

Start with `interaction`.
"""
