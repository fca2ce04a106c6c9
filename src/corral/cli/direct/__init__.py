"""Commands that scripts run often, and commands that print tables. They load little, and none of the model's classes.

Decisions 77 and 82 give the saved time. Start reading at `list_jobs`, then `rows`.
"""
