"""Starts and ends the inference server of an experiment: one module for each mode of deployment.

`modes` lists the modes.

Start with `deployment`, which has their common interface.
"""
