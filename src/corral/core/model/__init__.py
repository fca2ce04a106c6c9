"""The model: frozen values that describe jobs, devices and the cluster. Standard library only, no I/O and no clock.

`view` is the cluster at one version, `fact` what changes it, and `fit` the one test whether a request fits on a node.
Start with `job`, `device` and `allocation`.
"""
