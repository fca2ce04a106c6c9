"""From options as users write them to a submission.

Start with `request`.
"""
