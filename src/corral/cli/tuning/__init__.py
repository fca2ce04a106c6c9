"""Commands for model services.

Start with `deploy`.
"""
