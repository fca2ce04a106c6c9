"""Acts on one node of a cluster for a server, through the API server and the known state of its objects."""

from collections.abc import Mapping
from dataclasses import dataclass

from corral.core.ports.node import LogChunk, Logs
from corral.engines.kubernetes.engine.cluster_launches import ClusterLaunches
from corral.engines.kubernetes.engine.launches_on_node import DEFAULT_RUNTIME, LaunchesOnNode
from corral.engines.kubernetes.engine.runtimes import ClusterRuntime
from corral.host.node.launches.node_executions import NodeExecutions


class ClusterNodeAgent:
    """Implements `core.ports.node.NodeAgent` for one node. It has a thread while commands run in its
    jobs.
    """

    news = None
    """None: the feed of the cluster reports the changes of its nodes."""
    inputs = None
    """None: pods take no input."""
    trees = None
    """None: pods have volumes."""
    host = None
    accounts = None
    """None: a cluster does not show the processes, files and slices of its hosts, and runs no command of a user
    there.
    """

    def __init__(self, launches: LaunchesOnNode) -> None:
        self.launches = launches
        self.logs = _ClusterLogs(launches.runtimes, launches.records)
        self.executions = NodeExecutions(launches.execute)

    def close(self) -> None:
        """End the commands inside jobs."""
        self.executions.close()


@dataclass(frozen=True, slots=True)
class _ClusterLogs:
    """Implements `corral.core.ports.node.Logs` by the logs of the runtime of each job."""

    runtimes: Mapping[str, ClusterRuntime]
    records: ClusterLaunches

    def read(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        return self._of(job_id).read(job_id, rank, offset, max_bytes, mark)

    def written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        return self._of(job_id).written_since(job_id, rank, ago_s, mark)

    def note(self, job_id: str, rank: int, line: str) -> None:
        self._of(job_id).note(job_id, rank, line)

    def _of(self, job_id: str) -> Logs:
        return self.runtimes[self.records.runtime_of_job(job_id) or DEFAULT_RUNTIME].logs
