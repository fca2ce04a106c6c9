"""The source of a server's nodes: this machine, a mock cluster, or a Kubernetes cluster."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from corral.core.model.devices.joined_host import HostEntry, JoinedHost, JoinOrder
from corral.core.ports.containers import Containers
from corral.core.ports.node import News, NodeAgent
from corral.core.ports.pod_jobs import PodJobs

Joined = Callable[[str, NodeAgent], None]
Left = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FeedNews:
    """A feed's report about its nodes. Nothing new is known about a node that is in none of the three attributes.

    Attributes:
        news: the changes of nodes, by name.
        quiet: nodes that answer, without changes.
        silent: nodes that do not answer, each with the reason why nothing starts there: a sentence without its full
            stop.
    """

    news: Mapping[str, News] = field(default_factory=dict)
    quiet: Collection[str] = ()
    silent: Mapping[str, str] = field(default_factory=dict)


class NodeFeed(Protocol):
    """Reports the changes of many nodes by one long poll, so that no node needs a thread of its own."""

    def news(self, timeout_s: float) -> FeedNews:
        """Wait for changes of any node, or until the time is up. Each change is reported once.

        Raises CorralError while the source, such as the API server of a cluster, does not answer. Its nodes are then
        silent, and never count as gone.
        """
        ...


class JoinedHosts(Protocol):
    """The hosts that are joined by SSH, for people. Every call returns at once; a row tells what becomes of it."""

    def rows(self) -> Sequence[JoinedHost]:
        """Return all hosts, by name."""
        ...

    def add(self, entry: HostEntry, order: JoinOrder) -> JoinedHost:
        """Join a host, or try again with the order. Raises Conflict if its name is taken, Refused for too many."""
        ...

    def check(self, name: str) -> JoinedHost:
        """Try to reach a host now, if it is not ready. Raises NotFound."""
        ...

    def upgrade(self, name: str) -> JoinedHost:
        """Bring its agent to the server's version; jobs run on. Raises NotFound, and Conflict if it is not ready."""
        ...

    def remove(self, name: str) -> None:
        """Remove a host: its node leaves. Raises NotFound, and Conflict for a host of the settings."""
        ...


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """The properties of an engine's nodes.

    Attributes:
        source: the reader of their devices: "nvml", "mock", "kubernetes".
        here: whether the devices are this machine's own; then other servers on it must be warned.
        feed: reports the changes of all its nodes; None if each agent reports its own.
        max_threads: the most threads that act on its nodes at a time. None gives each node threads of its own,
            as needed if a single node may hang.
        least_sample_interval_s: the shortest sampling interval of its devices, whatever the settings say.
        containers: the containers of its jobs; None if jobs are processes.
        hosts: the hosts that are joined by SSH; None if none can be.
        via: tells how a node is reached, for a person: "ssh gpu-05"; None if it is this machine.
        offers: parts of this engine for features that serve its nodes alone, found by their class.
    """

    source: str
    here: bool = False
    feed: NodeFeed | None = None
    max_threads: int | None = None
    least_sample_interval_s: float = 0.0
    containers: Containers | None = None
    hosts: JoinedHosts | None = None
    via: Callable[[str], str | None] = lambda node: None
    offers: Sequence[object] = ()


class PodScheduler(NamedTuple):
    """The scheduler by which a server binds pods of others: its name in pods, and the cluster, by a UID of its own."""

    name: str
    cluster_uid: str


class NodeEngine(Protocol):
    """Brings nodes with their agents, and reports nodes that come and go."""

    @property
    def traits(self) -> EngineTraits: ...

    @property
    def remarks(self) -> Sequence[str]:
        """Return remarks about these nodes for the person who starts the server, once it has started: sentences."""
        ...

    @property
    def pod_scheduler(self) -> PodScheduler | None:
        """Return the scheduler by which it binds pods of others now; None if it binds none."""
        ...

    def log_path(self, node: str, job_id: str, rank: int) -> str | None:
        """The file of a member's log, on its node; None if logs are no files. Also of a node that has left."""
        ...

    def start(self) -> Mapping[str, NodeAgent]:
        """Return the agent of each node, by name. Raises CorralError, such as BackendFailed if no cluster answers."""
        ...

    def on_record(self) -> Collection[str]:
        """Return the ids of launches that are known outside of the home, where no user can forge them. Call it after
        `start`.
        """
        ...

    def at_work(self) -> Collection[str]:
        """Return phrases, for a person, on things outside of the home that belong to a ledger, even to a lost ledger.

        Call it after `start`.
        """
        ...

    def departed(self, node: str) -> NodeAgent | None:
        """Return an agent for a node that the cluster no longer has. It serves the ends and logs of launches, and
        forgets them.

        None if the engine has no such agent. The agent starts nothing, and reads each report anew.
        """
        ...

    def attend(self, jobs: PodJobs) -> None:
        """Submit pods that others created as these jobs. Called before any node is reconciled with the ledger."""
        ...

    def watch(self, joined: Joined, left: Left) -> None:
        """Report nodes that come and go after `start`, and begin to serve pods that others created."""
        ...

    def close(self) -> None:
        """Release the engine; work on its nodes goes on."""
        ...
