"""The engines that provide nodes other than this host and mock clusters.

Start with `kubernetes`.
"""
