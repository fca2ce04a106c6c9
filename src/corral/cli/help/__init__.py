"""Help pages, documents, completion, and what to say of mistakes.

Start with `help_page`.
"""
