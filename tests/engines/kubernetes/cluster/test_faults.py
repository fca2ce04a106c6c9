"""A cache and calls through a proxy that injects faults before a real API server."""

import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import (
    AlreadyExists,
    ClusterBusy,
    ClusterFailed,
    ClusterUnreachable,
    ObjectChanged,
)
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.fault_proxy import WATCH_FAULTS, FaultProxy, Faults, fault_proxy
from tests.engines.kubernetes.manifests import pod

PATIENCE_S = 60.0


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    with fault_proxy(control_plane, Faults(), seed=7) as proxy:
        yield proxy


@pytest.fixture
def troubled(control_plane: ControlPlane, proxy: FaultProxy, tmp_path: Path) -> Iterator[Cluster]:
    """A client that speaks through the proxy."""
    (tmp_path / "proxy").mkdir()
    troubled = control_plane.connect(tmp_path / "proxy", url=proxy.url)
    yield troubled
    troubled.close()


def writes(method: str, _target: str) -> bool:
    return method == "POST"


@pytest.mark.parametrize("fault", ["error_500", "conflict_409", "busy_429", "hang"])
def test_a_call_that_failed_in_passing_is_tried_again(
    troubled: Cluster, proxy: FaultProxy, namespace: str, fault: str
) -> None:
    proxy.once(fault, writes)
    troubled.create(PODS, pod("one", namespace))
    assert proxy.counts[fault] == 1


def test_a_busy_server_is_given_the_time_that_it_asks_for(troubled: Cluster, proxy: FaultProxy, namespace: str) -> None:
    proxy.once("busy_429")
    began = time.monotonic()
    troubled.list(PODS, Selection(namespace))
    assert time.monotonic() - began >= 1
    proxy.once("busy_429")
    with pytest.raises(ClusterBusy):
        troubled.list(PODS, Selection(namespace), timeout_s=0.5)


def test_a_listing_that_expires_between_two_pages_begins_again(
    troubled: Cluster, proxy: FaultProxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.engines.kubernetes.cluster.client.PAGE", 2)
    for number in range(5):
        troubled.create(PODS, pod(f"pod-{number}", namespace))
    proxy.once("expired_410", lambda _method, target: "continue=" in target)
    names = [item["metadata"]["name"] for item in troubled.list(PODS, Selection(namespace))]
    assert names == [f"pod-{number}" for number in range(5)]
    assert proxy.counts["expired_410"] == 1


def test_an_object_whose_answer_was_lost_is_said_to_exist(troubled: Cluster, proxy: FaultProxy, namespace: str) -> None:
    proxy.once("lost_answer", writes)
    with pytest.raises(AlreadyExists):
        troubled.create(PODS, pod("one", namespace))


def test_an_object_whose_name_the_server_chooses_is_made_once(
    troubled: Cluster, proxy: FaultProxy, namespace: str
) -> None:
    proxy.once("lost_answer", writes)
    manifest = pod("", namespace)
    manifest["metadata"] = {"generateName": "one-", "namespace": namespace}
    with pytest.raises(ClusterUnreachable):
        troubled.create(PODS, manifest)
    assert len(troubled.list(PODS, Selection(namespace))) == 1


def test_a_bind_and_a_delete_whose_answers_were_lost_have_worked(
    troubled: Cluster, proxy: FaultProxy, namespace: str
) -> None:
    uid = troubled.create(PODS, pod("one", namespace))["metadata"]["uid"]
    proxy.once("lost_answer", writes)
    troubled.bind("one", namespace, uid, "some-node")
    proxy.once("lost_answer", lambda method, _target: method == "DELETE")
    troubled.delete(PODS, "one", namespace, uid=uid, grace_s=0)


def test_a_conflict_is_for_its_caller_to_judge(troubled: Cluster, proxy: FaultProxy, namespace: str) -> None:
    troubled.create(PODS, pod("one", namespace))
    proxy.once("conflict_409")
    with pytest.raises(ObjectChanged):
        troubled.patch(PODS, "one", {"metadata": {"labels": {"a": "b"}}}, namespace)


def test_a_server_that_hangs_is_given_up_at_the_deadline(troubled: Cluster, proxy: FaultProxy, namespace: str) -> None:
    proxy.faults = Faults(hang=1, hang_s=60)
    began = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="does not answer in time"):
        troubled.list(PODS, Selection(namespace), timeout_s=0.5)
    assert time.monotonic() - began < 30


class Ledger:
    """Applies what it is told, and sees that it makes sense."""

    def __init__(self) -> None:
        self.pods: dict[str, PodFacts] = {}
        self.changed = threading.Condition()

    def __call__(self, changes: list[Change[PodFacts]]) -> None:
        with self.changed:
            for old, new in changes:
                assert old != new
                if old is not None:
                    assert self.pods.pop(old.name) == old
                if new is not None:
                    assert new.name not in self.pods
                    self.pods[new.name] = new
            self.changed.notify_all()


def watch_faults(proxy: FaultProxy) -> int:
    return sum(proxy.counts[name] for name in WATCH_FAULTS)


def test_a_cache_ends_up_with_the_truth_whatever_happens_to_its_watch(
    troubled: Cluster, cluster: Cluster, proxy: FaultProxy, namespace: str
) -> None:
    proxy.faults = Faults(
        error_500=0.1, hang=0.05, expired_410=0.1, watch_cut=0.05, watch_stall=0.03, watch_repeat=0.2,
        watch_expired=0.03, hang_s=0.5,
    )  # fmt: skip
    told = Ledger()
    watch = ObjectWatch(troubled, PODS, Selection(namespace), silence_s=2)
    cache = watch.cache(read_pod)
    cache.subscribe(told)
    watch.start()
    try:
        gives_up = time.monotonic() + PATIENCE_S
        for number in count():
            # A watch that is slow to begin sees nothing of what is listed before: there is more until it was troubled.
            if number >= 60 and (watch_faults(proxy) > 5 or time.monotonic() > gives_up):
                break
            cluster.create(PODS, pod(f"pod-{number}", namespace))
            if number % 3 == 0:
                cluster.delete(PODS, f"pod-{number}", namespace, grace_s=0)
            if number % 9 == 0:
                cluster.create(PODS, pod(f"pod-{number}", namespace, gpus=1))
        truth = {found.name: found for found in map(read_pod, cluster.list(PODS, Selection(namespace)))}
        with told.changed:
            assert told.changed.wait_for(lambda: told.pods == truth, PATIENCE_S), told.pods.keys() ^ truth.keys()
        assert {value.name: value for value in cache.values()} == truth
    finally:
        watch.stop()
    assert watch_faults(proxy) > 5


def test_a_cache_says_why_it_cannot_follow_and_goes_on_when_it_can(
    troubled: Cluster, cluster: Cluster, proxy: FaultProxy, namespace: str
) -> None:
    proxy.faults = Faults(error_500=1)
    watch = ObjectWatch(troubled, PODS, Selection(namespace))
    cache = watch.cache(read_pod)
    watch.start()
    try:
        with pytest.raises(ClusterFailed, match="injected"):
            watch.wait_until_synced(1)
        cluster.create(PODS, pod("one", namespace))
        proxy.faults = Faults()
        watch.wait_until_synced(PATIENCE_S)
        assert cache.get("one", namespace) is not None
    finally:
        watch.stop()
