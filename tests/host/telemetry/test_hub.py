"""The hub over agents that follow a script: who is heard, who is told, and that a hung agent holds up nobody."""

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.errors import BackendFailed, NodeUnreachable
from corral.core.model.fact import ConditionObserved, Observation
from corral.core.model.view import View
from corral.core.ports.engine import FeedNews
from corral.core.ports.node import News, NodeAgent, ServiceLost
from corral.core.ports.telemetry import Contact
from corral.host.telemetry import hub as hub_module
from corral.host.telemetry.hub import Hub

PATIENCE_S = 60.0
HASTY = Settings(node_silent_after_s=0.2, node_gone_after_s=0.6)
CALM = Settings(node_silent_after_s=PATIENCE_S, node_gone_after_s=2 * PATIENCE_S)


class ScriptedAgent:
    """A node of one device that tells what a test puts in; it can hang, fail, or be restarted."""

    def __init__(self, uuid: str) -> None:
        self.node = Node(uuid, (Device(uuid, 0, "A100", 81920),), 8000, 1024)
        self.changed = threading.Condition()
        self.sequence = 1
        self.epoch = "first"
        self.newest: dict[str, object] = {"node": self.node, "samples": (sample(uuid),)}
        self.hung = False
        self.failing = False
        self.asked_after: list[int] = []

    @property
    def news(self) -> "ScriptedAgent":
        return self

    def since(self, after: int, timeout_s: float) -> News:
        with self.changed:
            self.asked_after.append(after)
            if not self.hung and not self.failing:
                self.changed.wait_for(lambda: after != self.sequence or self.hung or self.failing, timeout_s)
            self.changed.wait_for(lambda: not self.hung, PATIENCE_S)
            if self.failing:
                raise BackendFailed("its agent does not answer")
            told = self.newest if after != self.sequence else {}
            return replace(News(self.sequence, self.epoch, time.time()), **told)  # type: ignore[arg-type]

    def tell(self, **news: object) -> None:
        with self.changed:
            self.sequence += 1
            self.newest = news
            self.changed.notify_all()

    def hang(self, hung: bool) -> None:
        with self.changed:
            self.hung = hung
            self.changed.notify_all()

    def fail(self, failing: bool) -> None:
        with self.changed:
            self.failing = failing
            self.changed.notify_all()

    def restart(self) -> None:
        with self.changed:
            self.epoch, self.sequence = "second", 1
            self.newest = {"node": self.node, "samples": (sample(self.node.name),)}
            self.changed.notify_all()


def sample(uuid: str) -> DeviceSample:
    return DeviceSample(uuid, time.time(), 0, 0, 81920, 81920, processes=())


class ScriptedFeed:
    """Tells what a test puts in, of any node; it can fail."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[FeedNews] = queue.SimpleQueue()
        self.failing = False

    def news(self, timeout_s: float) -> FeedNews:
        if self.failing:
            raise NodeUnreachable("the cluster does not answer")
        try:
            return self.told.get(timeout=min(timeout_s, 0.01))
        except queue.Empty:
            return FeedNews()

    def tell(self, *agents: ScriptedAgent, quiet: Collection[str] = (), **silent: str) -> None:
        news = {agent.node.name: agent.since(0, 0.0) for agent in agents}
        self.told.put(FeedNews(news, quiet, silent))


@dataclass
class Server:
    """The view that observations make, and all that the listener was told; it readmits who comes, if it is to."""

    view: View = field(default_factory=View)
    events: list[tuple[object, ...]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    hub: Hub | None = None
    readmits: bool = True

    def observe(self, observations: Sequence[Observation]) -> None:
        with self.lock:
            self.view = self.view.advance(observations)

    def on_launches(self, node: str, launch_ids: tuple[str, ...]) -> None:
        self.events.append(("launches", node, launch_ids))

    def on_services_lost(self, node: str, lost: tuple[ServiceLost, ...]) -> None:
        self.events.append(("services lost", node, lost))

    def on_return(self, node: str, visit: int) -> None:
        self.events.append(("return", node, visit))
        if self.readmits and self.hub is not None:
            self.hub.readmit(node, visit)

    def on_gone(self, node: str) -> None:
        self.events.append(("gone", node))

    def on_left(self, node: str) -> None:
        self.events.append(("left", node))

    def readable(self, uuid: str) -> bool:
        condition = self.view.conditions.get(uuid)
        return condition is not None and condition.unreadable is None


Listen = Callable[..., Hub]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def listen(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listen]:
    monkeypatch.setattr(hub_module, "ASK_AGAIN_S", 0.01)
    hubs = []
    heard: list[ScriptedAgent] = []

    def listen(*agents: ScriptedAgent, settings: Settings = CALM, feed: "ScriptedFeed | None" = None) -> Hub:
        named = {agent.node.name: cast(NodeAgent, agent) for agent in agents}
        server.hub = Hub(named, SystemClock(), settings, view=lambda: server.view, observe=server.observe, feed=feed)
        hubs.append(server.hub)
        heard.extend(agents)
        server.hub.start(server)
        return server.hub

    yield listen
    for hub in hubs:
        hub.stop()
    for agent in heard:
        agent.hang(False)
        agent.fail(True)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.005)


def test_every_node_is_known_when_start_returns(listen: Listen, server: Server) -> None:
    hub = listen(ScriptedAgent("a"), ScriptedAgent("b"))
    eventually(lambda: server.readable("a") and server.readable("b"))
    assert sorted(server.view.nodes) == ["a", "b"]
    assert sorted(hub.latest()) == ["a", "b"]
    assert [each.contact for each in hub.contacts()] == [Contact.READY, Contact.READY]


def test_news_of_launches_and_services_reach_the_listener(listen: Listen, server: Server) -> None:
    agent = ScriptedAgent("a")
    listen(agent)
    lost = ServiceLost("a", "it was killed", ("4.1",))
    agent.tell(launches=("4.1", "5.1"), services_lost=(lost,))
    eventually(lambda: ("services lost", "a", (lost,)) in server.events)
    assert ("launches", "a", ("4.1", "5.1")) in server.events


def test_a_hung_agent_falls_silent_and_then_is_gone_while_another_is_heard(listen: Listen, server: Server) -> None:
    hung, well = ScriptedAgent("a"), ScriptedAgent("b")
    # On a busy machine the thread of a node that is well may get no turn for a while.
    listen(hung, well, settings=replace(HASTY, node_gone_after_s=3.0))
    eventually(lambda: server.readable("a") and server.readable("b"))
    hung.hang(True)
    eventually(lambda: not server.readable("a"))
    well.tell(launches=("4.1",))
    eventually(lambda: ("launches", "b", ("4.1",)) in server.events)
    eventually(lambda: ("gone", "a") in server.events)
    assert ("gone", "b") not in server.events
    assert server.events.count(("gone", "a")) == 1


def test_an_agent_that_hung_comes_back(listen: Listen, server: Server) -> None:
    agent = ScriptedAgent("a")
    listen(agent, settings=HASTY)
    agent.hang(True)
    eventually(lambda: "a" in server.view.silences)
    agent.hang(False)
    eventually(lambda: server.readable("a"))
    eventually(lambda: ("return", "a", 2) in server.events)


def test_an_agent_that_fails_is_asked_again(listen: Listen, server: Server) -> None:
    agent = ScriptedAgent("a")
    agent.fail(True)
    threading.Timer(0.05, agent.fail, [False]).start()
    listen(agent)
    eventually(lambda: server.readable("a"))


def test_an_agent_that_was_restarted_is_asked_for_everything(listen: Listen, server: Server) -> None:
    agent = ScriptedAgent("a")
    listen(agent)
    agent.tell(launches=("4.1",))
    agent.tell(launches=("4.2",))
    eventually(lambda: len(agent.asked_after) >= 3)
    agent.restart()
    eventually(lambda: ("return", "a", 2) in server.events)
    assert 0 in agent.asked_after[1:]
    eventually(lambda: server.readable("a"))


def test_nothing_is_readable_before_the_listener_readmits(listen: Listen, server: Server) -> None:
    server.readmits = False
    hub = listen(ScriptedAgent("a"))
    assert not server.readable("a")
    assert [each.contact for each in hub.contacts()] == [Contact.RETURNING]
    hub.readmit("a", 1)
    assert server.readable("a")


def test_a_device_that_no_node_has_is_judged_unreadable(listen: Listen, server: Server) -> None:
    hub = listen(ScriptedAgent("a"))
    known, unknown = hub.judged([sample("a"), sample("z")], server.view)
    assert isinstance(known, ConditionObserved)
    assert isinstance(unknown, ConditionObserved)
    assert unknown.condition.unreadable == "there is no such device on any node"
    assert known.condition.unreadable is None


def test_a_node_can_be_added_and_removed_while_the_hub_listens(listen: Listen, server: Server) -> None:
    hub = listen(ScriptedAgent("a"))
    later = ScriptedAgent("b")
    hub.add("b", cast(NodeAgent, later))
    eventually(lambda: server.readable("b"))
    hub.remove("b")
    assert sorted(server.view.nodes) == ["a"]
    assert server.events[-1] == ("left", "b")
    later.hang(False)
    later.fail(True)


def test_one_feed_tells_of_many_nodes_and_no_agent_is_asked(listen: Listen, server: Server) -> None:
    agents = [ScriptedAgent(f"n{number}") for number in range(300)]
    feed = ScriptedFeed()
    feed.tell(*agents)
    before = threading.active_count()
    hub = listen(*agents, feed=feed)
    assert threading.active_count() <= before + 2
    eventually(lambda: all(server.readable(agent.node.name) for agent in agents))
    assert {each.contact for each in hub.contacts()} == {Contact.READY}
    assert all(agent.asked_after == [0] for agent in agents)


def test_a_feed_tells_of_launches_and_of_nodes_that_fall_silent(listen: Listen, server: Server) -> None:
    agent, feed = ScriptedAgent("a"), ScriptedFeed()
    feed.tell(agent)
    listen(agent, feed=feed)
    agent.tell(launches=("4.1",))
    feed.tell(agent)
    eventually(lambda: ("launches", "a", ("4.1",)) in server.events)
    feed.tell(a="node a is NotReady")
    eventually(lambda: not server.readable("a"))
    assert server.view.silences["a"].reason == "node a is NotReady"
    feed.tell(quiet=["a", "nobody"])
    eventually(lambda: server.readable("a"))


def test_nodes_of_a_feed_that_fails_are_silent_never_gone_and_come_back(listen: Listen, server: Server) -> None:
    agent, feed = ScriptedAgent("a"), ScriptedFeed()
    feed.tell(agent)
    listen(agent, settings=HASTY, feed=feed)
    feed.failing = True
    eventually(lambda: "a" in server.view.silences)
    time.sleep(2 * HASTY.node_gone_after_s)
    assert server.view.silences["a"].reason == "the cluster does not answer"
    assert ("gone", "a") not in server.events
    feed.failing = False
    feed.tell(quiet=["a"])
    eventually(lambda: server.readable("a"))


def test_a_node_that_joins_is_told_of_by_the_feed_too(listen: Listen, server: Server) -> None:
    later, feed = ScriptedAgent("b"), ScriptedFeed()
    hub = listen(feed=feed)
    hub.add("b", cast(NodeAgent, later))
    feed.tell(later)
    eventually(lambda: server.readable("b"))


def test_a_device_is_judged_where_it_is_also_after_it_has_moved(listen: Listen, server: Server) -> None:
    one, other = ScriptedAgent("a"), ScriptedAgent("b")
    hub = listen(one, other)
    (before,) = hub.judged([sample("a")], server.view)
    hub.remove("a")
    other.tell(node=replace(other.node, devices=one.node.devices))
    eventually(lambda: server.view.nodes["b"].devices == one.node.devices)
    (after,) = hub.judged([sample("a")], server.view)
    for judged in (before, after):
        assert isinstance(judged, ConditionObserved)
        assert judged.condition.unreadable is None


def test_a_device_that_another_node_has_is_refused_with_both_names_until_that_node_is_gone(
    listen: Listen, server: Server
) -> None:
    one, other = ScriptedAgent("a"), ScriptedAgent("b")
    hub = listen(one, other)
    eventually(lambda: server.readable("a") and server.readable("b"))
    other.tell(node=replace(other.node, devices=one.node.devices))
    eventually(lambda: "b" in server.view.silences)
    reason = server.view.silences["b"].reason
    assert "nothing starts on node b: its GPU a is on node a already" in reason
    assert server.readable("a")
    assert [device.uuid for device in server.view.nodes["b"].devices] == ["b"]
    hub.remove("a")
    eventually(lambda: "b" not in server.view.silences)
    assert server.view.nodes["b"].devices == one.node.devices


def test_a_node_whose_agent_never_waits_takes_a_part_of_a_core(listen: Listen, server: Server) -> None:
    class Busy(ScriptedAgent):
        def since(self, after: int, timeout_s: float) -> News:
            self.epoch = f"{len(self.asked_after)}"
            return super().since(-1, 0.0)

    busy = Busy("a")
    listen(busy, ScriptedAgent("b"))
    eventually(lambda: server.readable("b"))
    began = time.monotonic()
    eventually(lambda: time.monotonic() > began + 1.0)
    # Each answer is of another restart. The first few come at once.
    assert len(busy.asked_after) < 20


def test_the_reason_why_an_agent_is_asked_in_vain_is_told_with_its_silence(listen: Listen, server: Server) -> None:
    agent = ScriptedAgent("a")
    listen(agent, ScriptedAgent("b"), settings=replace(HASTY, node_gone_after_s=2 * PATIENCE_S))
    eventually(lambda: server.readable("a"))
    agent.fail(True)
    eventually(lambda: "a" in server.view.silences)
    eventually(lambda: "its agent does not answer" in server.view.silences["a"].reason)


def test_of_a_device_that_nothing_reads_there_is_a_sample_and_no_reading(listen: Listen, server: Server) -> None:
    agent = ScriptedAgent("a")
    agent.newest = {"node": agent.node, "samples": (DeviceSample("a", time.time(), metered=False),)}
    hub = listen(agent, ScriptedAgent("b"))
    eventually(lambda: server.readable("a") and server.readable("b"))
    assert (sorted(hub.latest()), sorted(hub.readings())) == (["a", "b"], ["b"])
