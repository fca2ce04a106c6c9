"""The hub: hears all nodes, each on a thread of its own, and knows of each whether it answers."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from corral.clock import Clock
from corral.config import Settings
from corral.model.device import DeviceCondition, DeviceSample
from corral.model.errors import CorralError
from corral.model.fact import ConditionObserved, Observation
from corral.model.view import View
from corral.ports.node import NodeAgent
from corral.ports.telemetry import NodeContact, NodeListener
from corral.telemetry.node_silence import WatchedNode

logger = logging.getLogger(__name__)

ASK_AGAIN_S = 1.0
"""The pause after an agent did not answer."""

_LOOKS_PER_SILENCE = 20
"""How often a node's silence is looked at, within the time after which it counts."""


class Hub:
    """Implements `corral.ports.telemetry.NodeTelemetry` for any number of nodes.

    It asks each agent for news, again and again; what matters of them goes to `observe`, which must return at once.
    An agent that does not answer holds up nobody but its own thread.
    """

    def __init__(
        self,
        agents: Mapping[str, NodeAgent],
        clock: Clock,
        settings: Settings,
        *,
        view: Callable[[], View],
        observe: Callable[[Sequence[Observation]], None],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._view = view
        self._observe = observe
        self._several = len(agents) > 1
        self._lock = threading.Lock()
        self._lines = {name: self._line(name, agent) for name, agent in agents.items()}
        self._listener: NodeListener | None = None
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._watch_silence, name="node-silence", daemon=True)

    def expect(self, listener: NodeListener) -> None:
        """Let the ledger know which nodes there should be. Whoever calls this and not `start` calls `round`, too."""
        self._listener = listener
        for line in self._all():
            line.node.expect()

    def start(self, listener: NodeListener) -> None:
        """Begin to listen. Returns when every node was heard, or has become silent: then its devices are not known."""
        self.expect(listener)
        lines = self._all()
        for line in lines:
            line.start(listener)
        self._watch.start()
        deadline = self._clock.monotonic() + self._settings.node_silent_after_s
        for line in lines:
            line.heard.wait(max(0.0, deadline - self._clock.monotonic()))

    def round(self) -> None:
        """Ask every agent once for what is new, without waiting, and look who is silent: for who has no threads."""
        assert self._listener is not None
        for line in self._all():
            with suppress(CorralError):
                line.ask(self._listener, 0.0)
        self._look()

    def stop(self) -> None:
        """End the listening; a call to an agent that hangs is left behind."""
        self._closing.set()
        for line in self._all():
            line.closing.set()

    def add(self, name: str, agent: NodeAgent) -> None:
        """Listen to one more node."""
        line = self._line(name, agent)
        with self._lock:
            self._lines[name] = line
        if self._listener is not None:
            line.node.expect()
            if self._watch.is_alive():
                line.start(self._listener)

    def remove(self, name: str) -> None:
        """Listen to this node no more: it has left the cluster, and its jobs are given up."""
        with self._lock:
            line = self._lines.pop(name)
        line.closing.set()
        line.node.leave()
        if self._listener is not None:
            self._listener.on_gone(name)

    def latest(self) -> dict[str, DeviceSample]:
        """The last sample of each device by UUID, without those of nodes that do not answer."""
        found: dict[str, DeviceSample] = {}
        for line in self._all():
            found.update(line.node.samples())
        return found

    def judged(self, samples: Sequence[DeviceSample], before: View) -> tuple[Observation, ...]:
        """What samples that were asked for mean; a device that no node has is unreadable."""
        found: dict[str, Observation] = {}
        for line in self._all():
            found.update({each.condition.uuid: each for each in line.node.judged(samples, before)})
        nowhere = "there is no such device on any node"
        return tuple(
            found.get(sample.uuid) or ConditionObserved(DeviceCondition(sample.uuid, unreadable=nowhere))
            for sample in samples
        )

    def readmit(self, node: str, visit: int) -> None:
        """The node was reconciled since this visit of its began: things may start there."""
        with self._lock:
            line = self._lines.get(node)
        if line is not None:
            line.node.readmit(visit)

    def contacts(self) -> tuple[NodeContact, ...]:
        """Every node, by name, and whether it answers."""
        return tuple(line.node.contact() for line in sorted(self._all(), key=lambda line: line.node.name))

    def _line(self, name: str, agent: NodeAgent) -> "_Line":
        title = name if self._several else None
        node = WatchedNode(name, self._clock, self._settings, view=self._view, observe=self._observe, title=title)
        return _Line(node, agent, poll_s=self._settings.node_silent_after_s / 2)

    def _all(self) -> list["_Line"]:
        with self._lock:
            return list(self._lines.values())

    def _watch_silence(self) -> None:
        while not self._closing.wait(self._settings.node_silent_after_s / _LOOKS_PER_SILENCE):
            self._look()

    def _look(self) -> None:
        assert self._listener is not None
        for line in self._all():
            if line.node.look():
                self._listener.on_gone(line.node.name)


class _Line:
    """Asks one agent for news, again and again on a thread once that is started."""

    def __init__(self, node: WatchedNode, agent: NodeAgent, *, poll_s: float) -> None:
        self.node = node
        self.heard = threading.Event()
        self.closing = threading.Event()
        self._agent = agent
        self._poll_s = poll_s
        self._after = 0
        self._epoch = ""

    def start(self, listener: NodeListener) -> None:
        """Begin to ask."""
        name = f"news-{self.node.name}"
        threading.Thread(target=self._listen, args=(listener,), name=name, daemon=True).start()

    def ask(self, listener: NodeListener, timeout_s: float) -> None:
        """Ask once, and tell the listener what it concerns. Raises CorralError where there is no answer."""
        news = self._agent.news(self._after, timeout_s)
        if self.closing.is_set():
            return
        restarted, self._epoch = news.epoch != self._epoch, news.epoch
        if restarted and self._after:
            # These are the news since a number that the agent gave in an earlier life.
            self._after = 0
            return
        self._after = news.sequence
        visit = self.node.hear(news)
        self.heard.set()
        if visit is not None:
            listener.on_return(self.node.name, visit)
        if news.launches:
            listener.on_launches(self.node.name, news.launches)
        if news.services_lost:
            listener.on_services_lost(self.node.name, news.services_lost)

    def _listen(self, listener: NodeListener) -> None:
        while not self.closing.is_set():
            try:
                self.ask(listener, self._poll_s)
            except CorralError as error:
                logger.debug("node %s: %s", self.node.name, error)
                self.closing.wait(ASK_AGAIN_S)
