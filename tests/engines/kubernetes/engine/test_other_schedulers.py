"""What another scheduler has just bound is seen before the next start on that node, and its pods are warned of."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from corral.clock import ManualClock
from corral.core.model.devices.device import Device
from corral.core.model.errors import DevicesTaken
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import DeviceUse, Launch
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.engine.cluster_launches import ClusterLaunches
from corral.engines.kubernetes.engine.launches_on_node import LaunchesOnNode
from corral.engines.kubernetes.engine.node_book import AHEAD_S, NodeBook
from corral.engines.kubernetes.engine.other_schedulers import RECENT_S, OtherSchedulers
from corral.engines.kubernetes.inventory.devices import device_id
from corral.engines.kubernetes.inventory.occupants import keep_occupant
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node


class Place:
    """A node of a real API server, of which the watch tells only what the test says."""

    def __init__(self, cluster: Cluster, namespace: str, gpus: int) -> None:
        self.cluster, self.namespace, self.node = cluster, namespace, f"n-{namespace}"
        make_node(cluster, self.node, gpus=gpus)
        self.clock = ManualClock()
        self.book = NodeBook(self.clock)
        self.book.nodes_changed([Change(None, read_node(cluster.get(NODES, self.node)))])
        watch = ObjectWatch(cluster, PODS)
        self.others = OtherSchedulers(cluster, watch, self.book, self.clock, scheduler="corral", tag="aaaa")
        self.runtime = Mock(pod_name=lambda launch_id: (namespace, f"own-{launch_id}"))
        runtimes = {"container": self.runtime}
        launches = ClusterLaunches({})
        self.launches = LaunchesOnNode(self.node, self.book, runtimes, launches, self.clock, self.others.look)
        self.launches.reconcile((), ())

    def bound_by_others(self, name: str, *, gpus: int = 1, told: bool = False) -> None:
        made = self.cluster.create(PODS, pod(name, self.namespace, gpus=gpus, node=self.node))
        if told:
            self.tell(made)

    def tell(self, item: dict[str, Any]) -> None:
        self.book.occupants_changed([Change(None, keep_occupant(item))])

    def taken(self, *slots: int) -> list[bool]:
        """Whether somebody else has each of these slots, as a start is told."""
        ready = self.launches.ready(tuple(device_id(self.node, slot) for slot in slots))
        return [sample.pod is not None for sample in ready.samples]

    def launch(self, number: int, *slots: int) -> None:
        job = Job(str(number), number, JobSpec(user="alice", command=("true",)), 0.0)
        uses = [
            DeviceUse(Device(uuid, slot, "GPU", None), None, (), Mock(spec=Tenant, grant=Grant(uuid, 1000)))
            for slot in slots
            for uuid in [device_id(self.node, slot)]
        ]
        self.launches.launch(Launch(f"{number}.1", job, (), node=self.node, runtime="container", uses=tuple(uses)))


@pytest.fixture
def place(cluster: Cluster, namespace: str) -> Place:
    return Place(cluster, namespace, gpus=2)


def test_a_start_sees_what_was_bound_just_after_what_the_watch_has_told(place: Place) -> None:
    place.bound_by_others("first", told=True)
    place.bound_by_others("second")
    assert place.taken(0, 1) == [True, True]


def test_a_launch_that_would_be_one_too_many_is_placed_anew_and_never_made(place: Place) -> None:
    place.bound_by_others("first", told=True)
    place.bound_by_others("second")
    with pytest.raises(DevicesTaken, match="1 more would be in use than the healthy GPUs"):
        place.launch(1, 0)
    place.runtime.launch.assert_not_called()


def test_a_launch_on_a_gpu_that_has_just_fallen_sick_is_not_laid_on_another_scheduler_alone(place: Place) -> None:
    place.launch(1, 0)
    item = place.cluster.get(NODES, place.node)
    item["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    place.book.nodes_changed([Change(None, read_node(item))])
    with pytest.raises(DevicesTaken, match="or some have just become unhealthy"):
        place.launch(2, 1)


def test_a_launch_beside_them_is_made(place: Place) -> None:
    place.bound_by_others("first", told=True)
    place.launch(1, 0)
    place.runtime.launch.assert_called_once()


def test_ones_own_pods_are_no_others_and_cost_no_call(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(place, monkeypatch)
    place.clock.advance(RECENT_S)
    for number, slot in ((1, 0), (2, 1)):
        place.launch(number, slot)
        place.tell(pod(f"own-{number}.1", place.namespace, gpus=1, node=place.node))
        place.taken(0, 1)
    assert calls == []


def test_a_node_where_nothing_of_others_has_come_for_a_second_is_not_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted(place, monkeypatch)
    place.bound_by_others("first", told=True)
    place.taken(0)
    assert len(calls) == 1
    place.clock.advance(RECENT_S)
    place.taken(0)
    assert len(calls) == 1


def test_what_was_read_and_is_never_told_of_counts_no_longer_than_it_may(place: Place) -> None:
    place.bound_by_others("first", told=True)
    place.bound_by_others("gone")
    assert place.taken(0, 1) == [True, True]
    place.cluster.delete(PODS, "gone", place.namespace, grace_s=0)
    place.book.wait(0)
    place.clock.advance(AHEAD_S)
    assert place.node in place.book.wait(0).nodes
    assert place.taken(0, 1) == [False, True]


def counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The lists that are asked for from now on."""
    calls: list[object] = []
    listed: Callable[..., Any] = place.cluster.list

    def count(*what: Any, **more: Any) -> Any:
        calls.append(what)
        return listed(*what, **more)

    monkeypatch.setattr(place.cluster, "list", count)
    return calls
