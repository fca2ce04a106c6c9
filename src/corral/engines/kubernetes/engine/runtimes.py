"""The interface of runtimes of launches in a cluster, for the engine and its agents."""

from typing import Protocol

from corral.core.model.runs.launch import Launch, LaunchReport
from corral.core.ports.node import LogChunk, Rendezvous
from corral.core.ports.runtime import Execution, InnerCommand
from corral.engines.kubernetes.inventory.occupants import PodName


class LaunchedHere(Protocol):
    """A launch on record at a runtime: its id, and its node, or ""."""

    @property
    def launch_id(self) -> str: ...

    @property
    def node(self) -> str: ...


class ClusterRuntime(Protocol):
    """Runs launches as pods of a cluster; as `corral.core.ports.runtime.Runtime`, for all nodes together."""

    def launch(self, launch: Launch) -> None: ...

    def stop(self, launch_id: str) -> None: ...

    def signal(self, launch_id: str, word: str) -> None: ...

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None: ...

    def report(self, launch_id: str) -> LaunchReport: ...

    def look(self, launch_id: str) -> None:
        """Ask the API server for the pod of a launch, so that its report is up to date. Raises NodeUnreachable."""
        ...

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool: ...

    def forget(self, launch_id: str) -> None: ...

    def rendezvous(self, launch_id: str) -> Rendezvous: ...

    def execute(self, launch_id: str, command: InnerCommand) -> Execution: ...

    def pod_name(self, launch_id: str) -> PodName:
        """The pod that runs a launch, or would."""
        ...

    def on_record(self) -> tuple[LaunchedHere, ...]:
        """Return every launch that has a pod, ended ones too."""
        ...

    def read_log(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk: ...

    def log_written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None: ...

    def note(self, job_id: str, rank: int, line: str) -> None: ...

    def close(self) -> None: ...
