"""The kubelet's gRPC interfaces on its node: device plugins (v1beta1) and the devices of pods (pod-resources v1).

It needs the extra `corral[kubelet]`, which only an agent in a cluster has.
"""

import os

# Else gRPC restarts its threads in each child that this process forks, and such a child may abort.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
