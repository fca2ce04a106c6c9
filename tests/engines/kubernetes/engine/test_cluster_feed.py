"""What a feed tells of nodes that come, change, fall silent and go, and whose devices jobs and pods of others have."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from corral.clock import ManualClock
from corral.core.model.errors import BackendFailed, CorralError, NodeUnreachable
from corral.core.ports.engine import FeedNews
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.engine import cluster_feed, node_book
from corral.engines.kubernetes.engine.cluster_feed import ClusterFeed
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.inventory.occupants import Occupant, keep_occupant
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.engines.kubernetes.inventory.seen_node import SeenNode, see_node
from tests.engines.kubernetes import manifests
from tests.engines.kubernetes.pods.launches import launch_of


def facts(name: str = "a", gpus: int = 4, **status: Any) -> NodeFacts:
    item = manifests.node(name, gpus=gpus)
    item["status"] |= status
    return read_node(item)


def occupant(name: str, node: str = "a", gpus: int = 1) -> Occupant:
    item = manifests.pod(name, "ml", gpus=gpus, node=node)
    item["metadata"]["uid"] = f"uid-{name}"
    found = keep_occupant(item)
    assert found is not None
    return found


NOT_READY = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]


class Rig:
    """A book, its feed, and the members that were told."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.book = NodeBook(self.clock)
        self.members: list[frozenset[str]] = []
        self.failure: CorralError | None = None
        self.feed = ClusterFeed(self.book, self.clock, members=self.members.append, trouble=lambda: self.failure)

    def node(self, old: NodeFacts | None, new: NodeFacts | None) -> FeedNews:
        self.book.nodes_changed([Change(old, new)])
        return self.feed.news(0.0)

    def pod(self, old: Occupant | None, new: Occupant | None) -> FeedNews:
        self.book.occupants_changed([Change(old, new)])
        return self.feed.news(0.0)

    def users(self, told: FeedNews, node: str = "a") -> dict[str, str | None]:
        return {one.uuid: one.pod.name if one.pod else None for one in told.news[node].samples}


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_node_is_told_whole_once_and_then_is_quiet(rig: Rig) -> None:
    told = rig.node(None, facts())
    assert (told.news["a"].node is not None, len(told.news["a"].samples)) == (True, 4)
    assert rig.members == [frozenset("a")]
    again = rig.feed.news(0.0)
    assert (again.news, list(again.quiet), again.silent) == ({}, ["a"], {})


def test_of_a_pod_that_comes_and_goes_its_devices_alone_are_told(rig: Rig) -> None:
    rig.node(None, facts())
    pod = occupant("theirs", gpus=2)
    assert rig.users(rig.pod(None, pod)) == {"a.gpu-2": "theirs", "a.gpu-3": "theirs"}
    assert rig.users(rig.pod(pod, None)) == {"a.gpu-2": None, "a.gpu-3": None}


def test_a_pod_that_changes_in_no_way_that_matters_is_no_news(rig: Rig) -> None:
    rig.node(None, facts())
    pod = occupant("theirs")
    rig.pod(None, pod)
    assert rig.pod(pod, occupant("theirs")).news == {}


def test_a_node_that_is_not_ready_is_silent_for_its_reason_and_told_whole_when_it_returns(rig: Rig) -> None:
    well, ill = facts(), facts(conditions=NOT_READY)
    told = rig.node(None, ill)
    assert (told.news, told.silent) == ({}, {"a": "node a is not ready: KubeletNotReady"})
    assert rig.node(ill, well).news["a"].node is not None
    assert rig.node(well, ill).silent.keys() == {"a"}
    back = rig.node(ill, well)
    assert (back.news, list(back.quiet)) == ({}, ["a"])


def test_pods_that_came_before_their_node_are_on_it(rig: Rig) -> None:
    rig.book.occupants_changed([Change(None, occupant("early"))])
    assert rig.users(rig.node(None, facts()))["a.gpu-3"] == "early"


def test_a_node_that_went_and_came_back_is_told_whole_again(rig: Rig) -> None:
    one = facts()
    rig.node(None, one)
    assert rig.node(one, None).news == {}
    assert rig.members[-1] == frozenset()
    assert rig.node(None, facts()).news["a"].node is not None


def test_nothing_is_lost_while_the_api_server_does_not_answer(rig: Rig) -> None:
    rig.node(None, facts())
    rig.failure = BackendFailed("it is away")
    with pytest.raises(NodeUnreachable, match="it is away"):
        rig.pod(None, occupant("theirs"))
    rig.failure = None
    assert rig.users(rig.feed.news(0.0)) == {"a.gpu-3": "theirs"}


def test_the_pod_of_a_launch_is_no_other_and_its_slots_are_the_launchs(rig: Rig) -> None:
    rig.node(None, facts())
    launch = launch_of(node="a", gpus=3)
    rig.book.hold(launch, ("ml", "ours"))
    assert rig.pod(None, occupant("ours", gpus=3)).news == {}
    assert rig.users(rig.pod(None, occupant("theirs"))) == {"a.gpu-3": "theirs"}
    rig.book.release(launch.id)
    # What is left of a launch that is forgotten is somebody's until it is gone.
    assert set(rig.users(rig.feed.news(0.0)).values()) == {"ours"}


def test_news_of_launches_are_told_with_their_node(rig: Rig) -> None:
    rig.node(None, facts())
    launch = launch_of(node="a")
    rig.book.hold(launch, ("ml", "ours"))
    rig.feed.news(0.0)
    for launch_id in (launch.id, launch.id, "99.1"):
        rig.book.launch_changed(launch_id)
    assert rig.feed.news(0.0).news["a"].launches == (launch.id,)


def test_slots_that_are_about_to_be_given_are_not_told_to_be_somebody_elses(rig: Rig) -> None:
    rig.node(None, facts())
    rig.book.choose("a", (3,))
    pod = occupant("theirs")
    assert rig.users(rig.pod(None, pod)) == {"a.gpu-2": "theirs"}


def told(news: FeedNews, node: str = "a") -> dict[str, int | None]:
    return {one.uuid: one.utilization_pct for one in news.news[node].samples}


def gpus(*pods: tuple[str, str] | None) -> list[GpuReading]:
    """Readings of a node's GPUs; the use of each is ten times its index."""
    return [GpuReading(index, utilization_pct=10.0 * index, pod=pod) for index, pod in enumerate(pods)]


def test_readings_are_told_of_the_slots_of_their_pods(rig: Rig) -> None:
    rig.node(None, facts())
    rig.pod(None, occupant("theirs"))
    launch = launch_of(node="a", gpus=2)
    rig.book.hold(launch, ("ml", "ours"))
    rig.feed.news(0.0)
    rig.book.readings_taken({"a": gpus(("ml", "theirs"), None, ("ml", "ours"), ("ml", "ours"))}, 1000.0, 970.0)
    news = rig.feed.news(0.0)
    assert told(news) == {"a.gpu-0": 20, "a.gpu-1": 30, "a.gpu-2": 10, "a.gpu-3": 0}
    assert all(one.metered and one.counted and one.taken_at == 1000.0 for one in news.news["a"].samples)


def test_the_same_readings_are_told_once_and_those_that_are_too_old_are_none(rig: Rig) -> None:
    rig.node(None, facts(gpus=1))
    rig.book.readings_taken({"a": gpus(None)}, 1000.0, 970.0)
    assert told(rig.feed.news(0.0)) == {"a.gpu-0": 0}
    rig.book.readings_taken({}, 1020.0, 990.0)
    assert rig.feed.news(0.0).news == {}
    rig.book.readings_taken({}, 1040.0, 1010.0)
    (sample,) = rig.feed.news(0.0).news["a"].samples
    assert (sample.metered, sample.utilization_pct) == (False, None)


def test_new_readings_are_put_on_what_is_known_of_their_nodes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Counter[str]()

    def counted(of: NodeFacts, *args: Any, **more: Any) -> SeenNode:
        looked[of.name] += 1
        return see_node(of, *args, **more)

    monkeypatch.setattr(node_book, "see_node", counted)
    rig.book.nodes_changed([Change(None, facts(name, gpus=2)) for name in ("a", "b")])
    rig.pod(None, occupant("theirs"))
    for round_number in range(3):
        taken_at = 1000.0 + 10.0 * round_number
        rig.book.readings_taken({"a": gpus(("ml", "theirs"), None), "b": gpus(None, None)}, taken_at, 970.0)
        news = rig.feed.news(0.0)
        assert (told(news), told(news, "b")) == ({"a.gpu-0": 10, "a.gpu-1": 0}, {"b.gpu-0": 0, "b.gpu-1": 10})
        assert [one.node for one in news.news.values()] == [None, None]
    assert looked == {"a": 1, "b": 1}
    rig.book.readings_taken({"a": gpus(None, None)}, 1030.0, 1000.0)
    assert rig.feed.news(0.0).news.keys() == {"a"}
    launch = launch_of(node="b")
    changes: list[Callable[[], None]] = [
        lambda: rig.book.occupants_changed([Change(None, occupant("more", node="b"))]),
        lambda: rig.book.hold(launch, ("ml", "ours")),
        lambda: rig.book.release(launch.id),
        lambda: rig.book.choose("b", (0,)),
        lambda: rig.book.nodes_changed([Change(None, facts("b", gpus=2))]),
    ]
    for times, change in enumerate(changes, start=2):
        change()
        rig.book.see("b")
        assert looked == {"a": 1, "b": times}


def test_readings_stay_with_their_pod_as_pods_come_and_go(rig: Rig) -> None:
    rig.node(None, facts(gpus=2))
    rig.book.readings_taken({"a": gpus(("ml", "theirs"), None)}, 1000.0, 970.0)
    assert told(rig.feed.news(0.0)) == {"a.gpu-0": 0, "a.gpu-1": 10}
    pod = occupant("theirs")
    assert told(rig.pod(None, pod)) == {"a.gpu-0": 10, "a.gpu-1": 0}
    assert rig.pod(None, occupant("idle", gpus=0)).news["a"].samples == ()
    rig.clock.advance(20.0)
    (left,) = [one for one in rig.pod(pod, None).news["a"].samples if one.uuid == "a.gpu-1"]
    assert (left.pod, left.metered, left.utilization_pct) == (None, True, 10)


def test_where_readings_name_no_pods_on_a_node_that_pods_share_no_device_has_any(rig: Rig) -> None:
    rig.node(None, facts(gpus=2))
    rig.pod(None, occupant("theirs"))
    rig.book.readings_taken({"a": gpus(None, None)}, 1000.0, 970.0)
    assert rig.feed.news(0.0).news == {}
    assert rig.book.unattributed().keys() == {"a"}


def test_shares_of_gpus_have_no_readings_of_whole_ones(rig: Rig) -> None:
    item = manifests.node("a", gpus=2, labels={"nvidia.com/gpu.replicas": "2"})
    rig.node(None, read_node(item))
    rig.book.readings_taken({"a": gpus(None, None)}, 1000.0, 970.0)
    assert rig.feed.news(0.0).news == {}


def test_who_waits_is_told_at_once(rig: Rig) -> None:
    threading.Timer(0.05, rig.book.nodes_changed, [[Change(None, facts())]]).start()
    assert rig.feed.news(60.0).news.keys() == {"a"}


def test_what_comes_soon_after_news_is_gathered_and_told_together(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.node(None, facts())
    paused_s: list[float] = []

    def pause(seconds: float) -> None:
        paused_s.append(seconds)
        rig.book.occupants_changed([Change(None, occupant("second"))])

    monkeypatch.setattr("corral.engines.kubernetes.engine.cluster_feed.time.sleep", pause)
    told = rig.pod(None, occupant("first"))
    assert set(rig.users(told).values()) >= {"first", "second"}
    assert 0.0 <= paused_s[0] <= cluster_feed.TELL_EVERY_S
