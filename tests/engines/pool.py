"""A server with two nodes, whatever brings them, and what can become of a node."""

import signal
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.box import Box

NODES = ("a", "b")
SETTINGS = """kill_grace: 1s
sample_interval: 0.5s
node_silent_after: 2s
node_gone_after: {gone_after}
retry_backoff: 0.1s
"""


def cluster(more: str = "", **faults: str) -> str:
    """A mock file with nodes of two devices each, by name, each with its fault or ""; `more` is of the last device."""
    return (
        "".join(
            f'[[nodes]]\nname = "{name}"\ncpus = 8\nmemory = "32G"\ndisk = "100G"\n'
            f'labels = {{ zone = "{name}" }}\n{fault}\n'
            + "".join(
                f'[[nodes.devices]]\nmother_uuid = "GPU-{name}-{i}"\nmodel_name = "Mock A100"\nmemory_size = "80G"\n'
                for i in range(2)
            )
            for name, fault in faults.items()
        )
        + more
    )


class Pool(Box):
    """A server with the nodes a and b, of two GPUs each, labelled with their zones.

    Attributes:
        shared: a directory that server, nodes and tests have.
    """

    shared: Path

    def states(self) -> dict[str, str]:
        """The state of each of the two."""
        return {row["name"]: row["state"] for row in self.nodes()}

    def nodes(self) -> list[dict[str, Any]]:
        """Their rows. There may be a node for the server's own machine besides."""
        return [row for row in self.json("nodes", "--json") if row["name"] in NODES]

    def all_ready(self) -> None:
        """Wait until both are."""
        self.until(lambda: self.states() == dict.fromkeys(NODES, "ready"))

    @abstractmethod
    def runs(self, node: str, pid: int) -> bool:
        """Whether a process of that node runs; its PID is as the node has it."""

    @abstractmethod
    def signal_agent(self, node: str, number: signal.Signals) -> None:
        """Send a signal to the node's agent."""

    @abstractmethod
    def kill_agent(self, node: str) -> None:
        """Kill its agent, in whose place another is started, as by a service manager."""

    @abstractmethod
    def silence(self, node: str) -> None:
        """From now on nobody hears of the node. Its jobs run on."""

    @abstractmethod
    def switch_off(self, node: str) -> None:
        """End all that runs there."""

    @abstractmethod
    def mend(self) -> None:
        """Both nodes are there again, as soon as the server finds them."""

    @contextmanager
    def hanging(self, node: str) -> Iterator[None]:
        """Meanwhile its agent does nothing."""
        self.signal_agent(node, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal_agent(node, signal.SIGCONT)

    @contextmanager
    @abstractmethod
    def stranger(self, node: str) -> Iterator[int]:
        """Meanwhile a process of nobody's uses the last GPU of the node; its PID there."""
        yield 0

    def restore(self) -> None:
        """All is as it was at first, and no job is there."""
        self.mend()
        self.all_ready()
        self.clear()
        for left in self.shared.iterdir():
            if (left.suffix == ".pid" and left.name != "corral.pid") or left.name == "gate":
                left.unlink(missing_ok=True)


def runs_at(stat: Path) -> bool:
    """Whether the process of this /proc/PID/stat runs."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
