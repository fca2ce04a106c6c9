"""Old addresses: launches of earlier versions name `corral.runtimes.docker.runner`.

The rooms are in `corral.host.runtimes`.
"""
