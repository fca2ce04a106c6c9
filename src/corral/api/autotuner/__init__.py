"""The paths and words of another autotuner, for its clients.

Start with `autotuner_routes`.
"""
