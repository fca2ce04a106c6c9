"""The hub: listens to all nodes, each on a thread of its own or all by one feed, and knows which of them answer."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from corral.clock import Clock
from corral.config import Settings
from corral.core.model.devices.device import DeviceCondition, DeviceSample, Node
from corral.core.model.errors import CorralError, NodeRefused
from corral.core.model.fact import ConditionObserved, Observation
from corral.core.model.printable import printable
from corral.core.model.view import View
from corral.core.ports.engine import FeedNews, NodeFeed
from corral.core.ports.node import News, NodeAgent, NodeNews
from corral.core.ports.telemetry import Contact, NodeContact, NodeListener
from corral.host.telemetry.node_contact import WatchedNode

logger = logging.getLogger(__name__)

ASK_AGAIN_S = 1.0
"""The pause after an agent did not answer."""

_HEARD_LOOK_S = 0.005
"""The interval at which a starting hub checks which nodes were heard."""

_PACE = 0.25
"""The part of a core that a node's news may take in the long run: an agent that never waits slows nobody else."""

_BURST_S = 1.0
"""The seconds of a core that a node's news may take at once."""

_LEAST_S = 0.0025
"""An answer counts at least as this much of a core: what follows from it costs time on other threads."""

_RESTART_S = 0.5
"""A restart of an agent counts as this much of a core, since the node is then compared with the ledger."""

_LOOKS_PER_SILENCE = 20
"""The number of checks for a silent node within the time after which it counts as silent."""


class Hub:
    """Implements `corral.core.ports.telemetry.NodeTelemetry` for any number of nodes.

    It asks each agent for news in a loop, or a feed for the news of all nodes. It passes relevant observations to
    `observe`, which must return at once. An agent that does not answer blocks only its own thread.
    """

    def __init__(
        self,
        agents: Mapping[str, NodeAgent],
        clock: Clock,
        settings: Settings,
        *,
        view: Callable[[], View],
        observe: Callable[[Sequence[Observation]], None],
        feed: NodeFeed | None = None,
    ) -> None:
        """With a `feed` the hub asks no agent."""
        self._clock = clock
        self._settings = settings
        self._view = view
        self._observe = observe
        self._several = len(agents) > 1
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._feed = (
            None
            if feed is None
            else _FeedLine(feed, self._line_of, self._closing, poll_s=settings.node_silent_after_s / 2)
        )
        self._lines = {name: self._line(name, agent) for name, agent in agents.items()}
        self._places: dict[str, _Line] = {}
        self._listener: NodeListener | None = None
        self._watch = threading.Thread(target=self._watch_silence, name="node-silence", daemon=True)

    def expect(self, listener: NodeListener) -> None:
        """Report the expected nodes to the ledger. A caller of this that does not call `start` must call `round`."""
        self._listener = listener
        for line in self._all():
            line.node.expect()

    def start(self, listener: NodeListener) -> None:
        """Begin to listen. Return when every node was heard, or has become silent: its devices are then unknown."""
        self.expect(listener)
        lines = self._all()
        for asked in lines if self._feed is None else [self._feed]:
            asked.start(listener)
        self._watch.start()
        deadline = self._clock.monotonic() + self._settings.node_silent_after_s
        for line in lines:
            while not line.heard and self._clock.monotonic() < deadline:
                self._closing.wait(_HEARD_LOOK_S)

    def round(self) -> None:
        """Ask every agent once for news, without waiting, and check for silent nodes: for a hub without threads."""
        assert self._listener is not None
        for line in self._all():
            with suppress(CorralError):
                line.ask(self._listener, 0.0)
        self._look()

    def stop(self) -> None:
        """Stop listening; a hanging call to an agent is abandoned."""
        self._closing.set()
        for asked in self._all() if self._feed is None else [self._feed]:
            asked.closed = True

    def add(self, name: str, agent: NodeAgent) -> None:
        """Listen to one more node."""
        line = self._line(name, agent)
        with self._lock:
            self._lines[name] = line
        if self._listener is not None:
            line.node.expect()
            if self._watch.is_alive() and self._feed is None:
                line.start(self._listener)

    def remove(self, name: str) -> None:
        """Stop listening to this node: it has left the cluster, and its jobs are given up."""
        with self._lock:
            line = self._lines.pop(name)
        line.closed = True
        line.node.leave()
        if self._listener is not None:
            self._listener.on_left(name)

    def latest(self) -> dict[str, DeviceSample]:
        """Return the last sample of each device by UUID, without the devices of silent nodes."""
        found: dict[str, DeviceSample] = {}
        for line in self._all():
            found.update(line.node.samples())
        return found

    def readings(self) -> dict[str, DeviceSample]:
        """Return the samples in `latest` of devices with readings. Other devices have no history."""
        found: dict[str, DeviceSample] = {}
        for line in self._all():
            found.update(line.node.readings())
        return found

    def judged(self, samples: Sequence[DeviceSample], before: View) -> tuple[Observation, ...]:
        """Return the conditions of devices by these samples. A device that no node has is unreadable."""
        found: dict[str, Observation] = {}
        by_line: dict[_Line, list[DeviceSample]] = {}
        for sample in samples:
            line = self._line_with(sample.uuid)
            if line is not None:
                by_line.setdefault(line, []).append(sample)
        for line, of_node in by_line.items():
            found.update({each.condition.uuid: each for each in line.node.judged(of_node, before)})
        nowhere = "there is no such device on any node"
        return tuple(
            found.get(sample.uuid) or ConditionObserved(DeviceCondition(sample.uuid, unreadable=nowhere))
            for sample in samples
        )

    def readmit(self, node: str, visit: int) -> None:
        """Let jobs start on the node, which was reconciled during the connection with this number."""
        line = self._line_of(node)
        if line is not None:
            line.node.readmit(visit)

    def contacts(self) -> tuple[NodeContact, ...]:
        """Return every node, by name, and whether it answers."""
        return tuple(line.node.contact() for line in sorted(self._all(), key=lambda line: line.node.name))

    def _line(self, name: str, agent: NodeAgent) -> "_Line":
        title = name if self._several else None
        node = WatchedNode(name, self._clock, self._settings, view=self._view, observe=self._observe, title=title)
        poll_s = self._settings.node_silent_after_s / 2
        return _Line(node, agent.news, self._closing, self._refusal, poll_s=poll_s)

    def _refusal(self, name: str, found: Node) -> str | None:
        """Return why the inventory of this node is not taken: another node has one of its devices. None if none has."""
        view = self._view()
        others = [line.node for line in self._all() if line.node.name != name]
        for device in found.devices:
            other = _holder_of(view, device.uuid)
            if other is None or self._line_of(other) is None:
                has = (node for node in others if node.has(device.uuid))
                other = next((node.name for node in has if node.contact().contact is not Contact.GONE), None)
            if other not in (None, name):
                return (
                    f"nothing starts on node {name}: its GPU {printable(device.uuid)} is on node {other} already, so "
                    f"it is the same host under two names, or its agent makes it up; remove one of the two"
                )
        return None

    def _line_of(self, node: str) -> "_Line | None":
        with self._lock:
            return self._lines.get(node)

    def _line_with(self, uuid: str) -> "_Line | None":
        """Return the line of the node that has this device. It is cached, because there may be thousands of nodes."""
        line = self._places.get(uuid)
        if line is None or not line.node.has(uuid) or self._line_of(line.node.name) is not line:
            line = next((one for one in self._all() if one.node.has(uuid)), None)
            if line is None:
                self._places.pop(uuid, None)
            else:
                self._places[uuid] = line
        return line

    def _all(self) -> list["_Line"]:
        with self._lock:
            return list(self._lines.values())

    def _watch_silence(self) -> None:
        while not self._closing.wait(self._settings.node_silent_after_s / _LOOKS_PER_SILENCE):
            self._look()

    def _look(self) -> None:
        assert self._listener is not None
        trouble = None if self._feed is None else self._feed.trouble
        for line in self._all():
            if line.node.look(trouble):
                self._listener.on_gone(line.node.name)


class _Line:
    """Asks one agent for news. After `start` it does so in a loop on a thread."""

    def __init__(
        self,
        node: WatchedNode,
        news: NodeNews | None,
        closing: threading.Event,
        refusal: Callable[[str, Node], str | None],
        *,
        poll_s: float,
    ) -> None:
        """`closing` is the hub's event; `closed` ends only this line. Without `news` the agent is never asked.

        `refusal` returns why the inventory of a node is not taken; None if it is.
        """
        self.node = node
        self._refusal = refusal
        self._pace = _Pace(time.monotonic())
        self.heard = False
        self.closed = False
        self._closing = closing
        self._news = news
        self._poll_s = poll_s
        self._after = 0
        self._epoch = ""

    def start(self, listener: NodeListener) -> None:
        """Start the thread."""
        name = f"news-{self.node.name}"
        threading.Thread(target=self._listen, args=(listener,), name=name, daemon=True).start()

    def ask(self, listener: NodeListener, timeout_s: float) -> None:
        """Ask once, and pass the news to the listener. Raises CorralError if there is no answer."""
        assert self._news is not None
        news = self._news.since(self._after, timeout_s)
        if self.closed:
            return
        restarted, self._epoch = news.epoch != self._epoch, news.epoch
        if restarted and self._after:
            # The agent restarted, and these news refer to a number of its earlier process.
            self._after = 0
            self._pace.spend(_RESTART_S)
            return
        refusal = None if news.node is None else self._refusal(self.node.name, news.node)
        if refusal is not None:
            # The next question is for everything, since the other node may be gone by then.
            self._after = 0
            raise NodeRefused(refusal)
        self._after = news.sequence
        self.take(listener, news)

    def take(self, listener: NodeListener, news: News) -> None:
        """Store the node's news, and notify the listener about launches and services."""
        self.came(listener, self.node.hear(news))
        if news.launches:
            listener.on_launches(self.node.name, news.launches)
        if news.services_lost:
            listener.on_services_lost(self.node.name, news.services_lost)

    def came(self, listener: NodeListener, visit: int | None) -> None:
        """Record that the node has answered. `visit` is the number of its new connection, None if it was connected
        before.
        """
        self.heard = True
        if visit is not None:
            listener.on_return(self.node.name, visit)

    def _listen(self, listener: NodeListener) -> None:
        while not self.closed:
            began_s = time.thread_time()
            try:
                self.ask(listener, self._poll_s)
            except CorralError as error:
                logger.debug("node %s: %s", self.node.name, error)
                self.node.miss(str(error), at_once=isinstance(error, NodeRefused))
                self.heard = self.heard or isinstance(error, NodeRefused)
                self._closing.wait(ASK_AGAIN_S)
            self._pace.spend(max(_LEAST_S, time.thread_time() - began_s))
            if pause_s := self._pace.pause_s(time.monotonic()):
                self._closing.wait(pause_s)


class _Pace:
    """Bounds the part of a core that one node's news may take."""

    def __init__(self, now_s: float) -> None:
        self._left_s = _BURST_S
        self._at_s = now_s

    def spend(self, used_s: float) -> None:
        """Count what the last answer took."""
        self._left_s -= used_s

    def pause_s(self, now_s: float) -> float:
        """Return how long to wait before the next question."""
        self._left_s = min(_BURST_S, self._left_s + _PACE * (now_s - self._at_s))
        self._at_s = now_s
        return max(0.0, -self._left_s / _PACE)


def _holder_of(view: View, uuid: str) -> str | None:
    """Return the node on which the ledger has given this device to a job; None if no job has it."""
    for allocation_id in view.holders.get(uuid, ()):
        for member in view.allocations[allocation_id].placement.members:
            if any(grant.uuid == uuid for grant in member.grants):
                return member.node
    return None


class _FeedLine:
    """Asks a feed for the news of all nodes. After `start` it does so in a loop on a thread.

    Attributes:
        trouble: the reason why it does not answer, a sentence without its full stop; None while it answers.
    """

    def __init__(
        self, feed: NodeFeed, line_of: Callable[[str], _Line | None], closing: threading.Event, *, poll_s: float
    ) -> None:
        self.closed = False
        self._closing = closing
        self.trouble: str | None = None
        self._answered_s = time.monotonic()
        self._complained = False
        self._feed = feed
        self._line_of = line_of
        self._poll_s = poll_s

    def start(self, listener: NodeListener) -> None:
        """Start the thread."""
        threading.Thread(target=self._listen, args=(listener,), name="news-feed", daemon=True).start()

    def _listen(self, listener: NodeListener) -> None:
        while not self.closed:
            try:
                told = self._feed.news(self._poll_s)
            except CorralError as error:
                if self.closed:
                    return
                self.trouble = str(error)
                self._complain()
                self._closing.wait(ASK_AGAIN_S)
            else:
                if self._complained:
                    logger.info("the nodes are heard again; what runs there is compared with the ledger")
                self.trouble, self._answered_s, self._complained = None, time.monotonic(), False
                self._take(told, listener)

    def _complain(self) -> None:
        """Log the failure once it has lasted for a while: most broken connections are soon restored."""
        if not self._complained and time.monotonic() - self._answered_s >= self._poll_s:
            self._complained = True
            logger.warning("no job starts on any node; running jobs go on: %s", self.trouble)

    def _take(self, told: FeedNews, listener: NodeListener) -> None:
        for name, news in told.news.items():
            if (line := self._line_of(name)) is not None:
                line.take(listener, news)
        for name in told.quiet:
            if (line := self._line_of(name)) is not None:
                line.came(listener, line.node.hear_nothing_new())
        for name, reason in told.silent.items():
            if (line := self._line_of(name)) is not None:
                line.node.miss(reason)
                line.heard = True
