"""Logs of pods that others made. They are read from the cluster each time and disappear with their pods."""

import base64
from contextlib import closing

from corral.core.ports.node import LogChunk
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import NoSuchObject, Rejected

TIMEOUT_S = 10.0
MOST_BYTES = 16 << 20
"""Kubernetes reads a log from its beginning. Text after this many bytes is not read."""


def read_log_of_others(cluster: Cluster, pod: PodOfOthers | None, offset: int, max_bytes: int) -> LogChunk:
    """A piece of the log of the pod's first container. Raises BackendFailed."""
    if pod is None or pod.facts.node is None:
        return LogChunk("", None)
    container = next((one.name for one in pod.facts.containers if not one.init), None)
    try:
        stream = cluster.read_log(
            pod.ref.name,
            pod.ref.namespace,
            container=container,
            limit_bytes=min(offset + max_bytes, MOST_BYTES),
            silence_s=TIMEOUT_S,
            timeout_s=TIMEOUT_S,
        )
    except (NoSuchObject, Rejected):
        # Its container has not begun.
        return LogChunk("", None)
    with closing(stream):
        data = b"".join(stream.blocks())
    return LogChunk(base64.b64encode(data[offset : offset + max_bytes]).decode(), len(data))
