"""Commands about the site: nodes and GPUs, settings, tokens, events.

Start with `cordon`.
"""
