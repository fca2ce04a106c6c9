"""Help pages, documents, completion, and hints for mistakes.

Start with `help_page`.
"""
