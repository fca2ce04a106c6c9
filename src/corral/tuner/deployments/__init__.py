"""Old addresses: jobs of earlier versions name `corral.tuner.deployments.port_holder`.

The modes of deployment are in `corral.features.tuner.deployments`.
"""
