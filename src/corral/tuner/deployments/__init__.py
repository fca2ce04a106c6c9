"""How the inference server of an experiment comes to run, and is ended: a module for each mode of deployment.

`deployment` is what all have in common, `modes` lists them.
"""
