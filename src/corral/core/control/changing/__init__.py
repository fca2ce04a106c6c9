"""Changes to existing jobs: selecting them, cancelling, holding, releasing, requeueing and updating.

Start with `job_changes`.
"""
