"""What things are: frozen values, standard library only, no I/O and no clock.

Start with `job`, `device` and `allocation`; `view` is the cluster at one version, `fact` what changes it, and `fit` the
one test whether a request fits on a node.
"""
