"""The paths, words and functions of another autotuner, for its clients.

Start with `routes`.
"""
