"""Old address of `corral.host.runtimes.docker`.

Launches of earlier versions name `runner` here.
"""
