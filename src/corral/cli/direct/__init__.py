"""Commands that scripts run often, and tables. They do without the classes of the model, and load little else.

Decisions 77 and 82 say what that saves. Start reading at `list_jobs`, then `rows`.
"""
