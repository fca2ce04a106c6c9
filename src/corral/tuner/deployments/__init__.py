"""Old import paths: commands of jobs of earlier versions contain `corral.tuner.deployments.port_holder`.

The modes of deployment are in `corral.features.tuner.deployments`.
"""
