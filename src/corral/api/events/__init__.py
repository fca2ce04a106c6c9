"""Events as clients follow them.

Start with `event_feed`.
"""
