"""Where nodes come from: this machine, a mock cluster, a Kubernetes cluster."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from corral.ports.containers import Containers
from corral.ports.node import News, NodeAgent
from corral.ports.pod_jobs import PodJobs

Joined = Callable[[str, NodeAgent], None]
Left = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FeedNews:
    """What a feed tells of its nodes. A node that none of the three names was neither heard nor missed.

    Attributes:
        news: of nodes of which something is new, by name.
        quiet: nodes that answer, and of which nothing is new.
        silent: nodes that do not answer, each with why nothing starts there: a sentence without its full stop.
    """

    news: Mapping[str, News] = field(default_factory=dict)
    quiet: Collection[str] = ()
    silent: Mapping[str, str] = field(default_factory=dict)


class NodeFeed(Protocol):
    """Tells the news of many nodes by one long poll, so that none of them needs a thread of its own."""

    def news(self, timeout_s: float) -> FeedNews:
        """Wait until there is something new of any node, or the time is up. What was told once is not told again.

        Raises CorralError while who tells it, such as the API server of a cluster, does not answer: its nodes are
        silent then, and are never taken for gone.
        """
        ...


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """What an engine's nodes are like.

    Attributes:
        source: what reads their devices: "nvml", "mock", "kubernetes".
        here: whether the devices are this machine's own, so that other servers on it are to be warned.
        feed: tells the news of all its nodes; None where each agent is asked for its own.
        max_threads: so many threads act on its nodes at a time; None gives each node threads of its own, which a node
            needs that may hang alone.
        least_sample_interval_s: its devices are not read more often than so, whatever the site says.
        containers: what containers jobs run in there; None where they are processes.
    """

    source: str
    here: bool = False
    feed: NodeFeed | None = None
    max_threads: int | None = None
    least_sample_interval_s: float = 0.0
    containers: Containers | None = None


class NodeEngine(Protocol):
    """Brings nodes with their agents, and tells which come and go."""

    @property
    def traits(self) -> EngineTraits: ...

    @property
    def remarks(self) -> Sequence[str]:
        """What whoever starts the server is to know of these nodes, once it has started: sentences."""
        ...

    def log_path(self, node: str, job_id: str, rank: int) -> str | None:
        """The file of a member's log, on its node; None where logs are no files. Also of a node that has left."""
        ...

    def start(self) -> Mapping[str, NodeAgent]:
        """The agent of each node, by name. Raises CorralError, such as BackendFailed where no cluster answers."""
        ...

    def on_record(self) -> Collection[str]:
        """The launches that something outside of the home knows, and no user can forge, once this was started."""
        ...

    def at_work(self) -> Collection[str]:
        """What a ledger has outside of its home, also one that is lost, once this was started: words for a person."""
        ...

    def departed(self, node: str) -> NodeAgent | None:
        """Speaks for a node that the cluster has no more: how its launches have ended, what they wrote, and that they
        are forgotten. None where nobody can. It asks for each report anew, and nothing starts by it.
        """
        ...

    def attend(self, jobs: PodJobs) -> None:
        """Pods that others make there become these jobs. Told before any node is brought together with the ledger."""
        ...

    def watch(self, joined: Joined, left: Left) -> None:
        """Tell of nodes that come and go from `start` on, and begin with the pods of others."""
        ...

    def close(self) -> None:
        """Let go; what runs there runs on."""
        ...
