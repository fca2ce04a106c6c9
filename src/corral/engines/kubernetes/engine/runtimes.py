"""The interface of runtimes of launches in a cluster, for the engine and its agents."""

from typing import Protocol

from corral.core.ports.node import Logs, Rendezvous
from corral.core.ports.runtime import Work
from corral.engines.kubernetes.inventory.occupants import PodName


class LaunchedHere(Protocol):
    """A launch on record at a runtime: its id, and its node, or ""."""

    @property
    def launch_id(self) -> str: ...

    @property
    def node(self) -> str: ...


class ClusterRuntime(Work, Protocol):
    """Runs launches as pods of a cluster, for all nodes together."""

    @property
    def logs(self) -> Logs:
        """The logs of the runtime's launches."""
        ...

    def signal(self, launch_id: str, word: str) -> None: ...

    def look(self, launch_id: str) -> None:
        """Ask the API server for the pod of a launch, so that its report is up to date. Raises NodeUnreachable."""
        ...

    def rendezvous(self, launch_id: str) -> Rendezvous: ...

    def pod_name(self, launch_id: str) -> PodName:
        """Return the name of the pod that runs a launch, or would run it."""
        ...

    def on_record(self) -> tuple[LaunchedHere, ...]:
        """Return every launch that has a pod, ended ones too."""
        ...
