"""Logs of pods that others created. They are read from the cluster each time and disappear with their pods."""

import base64
from collections.abc import Callable
from contextlib import closing

from corral.core.model.runs.launch import launch_id
from corral.core.ports.node import LogChunk
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import NoSuchObject, Rejected

TIMEOUT_S = 10.0
MOST_BYTES = 16 << 20
"""Kubernetes reads a log from its beginning. Text after this many bytes is not read."""


class LogsOfOthers:
    """Implements `corral.core.ports.node.Logs`. `pod_of` returns the pod of a launch, as far as it is known."""

    def __init__(self, cluster: Cluster, pod_of: Callable[[str], PodOfOthers | None]) -> None:
        self._cluster = cluster
        self._pod_of = pod_of

    def read(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        """Return a piece of the log of the first container in a member's pod. Raises BackendFailed."""
        pod = self._pod_of(launch_id(f"{job_id}.1", rank))
        if pod is None or pod.facts.node is None:
            return LogChunk("", None)
        container = next((one.name for one in pod.facts.containers if not one.init), None)
        try:
            stream = self._cluster.read_log(
                pod.ref.name,
                pod.ref.namespace,
                container=container,
                limit_bytes=min(offset + max_bytes, MOST_BYTES),
                silence_s=TIMEOUT_S,
                timeout_s=TIMEOUT_S,
            )
        except (NoSuchObject, Rejected):
            # The container has not begun.
            return LogChunk("", None)
        with closing(stream):
            data = b"".join(stream.blocks())
        return LogChunk(base64.b64encode(data[offset : offset + max_bytes]).decode(), len(data))

    def written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        """Return None: the time of the last log line is unknown."""
        return None

    def note(self, job_id: str, rank: int, line: str) -> None:
        """Do nothing: the log belongs to the pod, and Corral cannot write to it."""
