"""Commands about the site: nodes and GPUs, settings, tokens, alerts and channels.

Start with `cordon`.
"""
