"""What caches know of a real API server's objects."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.calls import Calls
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.connection import Call
from corral.engines.kubernetes.cluster.kubeconfig import find_access
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.manifests import pod

PATIENCE_S = 60.0
DEEP = 4000


class Heard:
    """What a subscriber was told."""

    def __init__(self) -> None:
        self.changes: list[Change[PodFacts]] = []
        self._changed = threading.Condition()

    def __call__(self, changes: list[Change[PodFacts]]) -> None:
        with self._changed:
            self.changes += changes
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[Change[PodFacts]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.changes) >= count, PATIENCE_S), self.changes
            return self.changes


@contextmanager
def following(cluster: Cluster, namespace: str) -> Iterator[Cache[PodFacts]]:
    watch = ObjectWatch(cluster, PODS, Selection(namespace))
    cache = watch.cache(read_pod)
    watch.start()
    try:
        watch.wait_until_synced(PATIENCE_S)
        yield cache
    finally:
        watch.stop()


def test_a_subscriber_is_told_what_is_there_and_then_each_change_in_order(cluster: Cluster, namespace: str) -> None:
    cluster.create(PODS, pod("before", namespace))
    heard = Heard()
    with following(cluster, namespace) as cache:
        cache.subscribe(heard)
        cluster.create(PODS, pod("after", namespace, gpus=2))
        cluster.patch(PODS, "after", {"metadata": {"labels": {"a": "b"}}}, namespace)
        cluster.delete(PODS, "after", namespace, grace_s=0)
        changes = heard.wait_for(5)
        assert [value.name for value in cache.values()] == ["before"]
    assert [(change.old and change.old.name, change.new and change.new.name) for change in changes] == [
        (None, "before"),
        (None, "after"),
        ("after", "after"),
        ("after", "after"),  # it is asked to go
        ("after", None),
    ]
    assert changes[1].new is not None
    assert changes[1].new.requests.of("nvidia.com/gpu") == 2


def test_what_changes_nothing_that_is_kept_is_not_told(cluster: Cluster, namespace: str) -> None:
    heard = Heard()
    with following(cluster, namespace) as cache:
        cache.subscribe(heard)
        cluster.create(PODS, pod("one", namespace))
        cluster.patch(PODS, "one", {"metadata": {"annotations": {"of-no-interest": "x"}}}, namespace)
        cluster.delete(PODS, "one", namespace, grace_s=0)
        changes = heard.wait_for(3)
    assert [change.new and change.new.deleting_at_s is None for change in changes] == [True, False, None]


def test_caches_of_one_watch_each_have_what_they_keep(cluster: Cluster, namespace: str) -> None:
    watch = ObjectWatch(cluster, PODS, Selection(namespace))
    everything, asking = watch.cache(read_pod), watch.cache(keep_pod_with_gpus)
    heard = Heard()
    asking.subscribe(heard)
    cluster.create(PODS, pod("before", namespace, gpus=1))
    watch.start()
    try:
        watch.wait_until_synced(PATIENCE_S)
        cluster.create(PODS, pod("plain", namespace))
        cluster.create(PODS, pod("after", namespace, gpus=2))
        assert [change.new and change.new.name for change in heard.wait_for(2)] == ["before", "after"]
        assert sorted(value.name for value in everything.values()) == ["after", "before", "plain"]
        assert asking.get("plain", namespace) is None
    finally:
        watch.stop()


def test_a_pod_whose_fields_are_nested_thousands_deep_keeps_no_other_from_being_seen(
    control_plane: ControlPlane, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    calls = Calls(find_access(str(control_plane.kubeconfig(tmp_path / "deep"))))
    heard = Heard()
    make_deep_pod(calls, "listed", namespace)
    with following(cluster, namespace) as cache:
        cache.subscribe(heard)
        make_deep_pod(calls, "watched", namespace)
        cluster.create(PODS, pod("after", namespace))
        assert [change.new and change.new.name for change in heard.wait_for(3)] == ["listed", "watched", "after"]
    calls.close()
    assert cluster.get(PODS, "listed", namespace)["spec"]["containers"]


def make_deep_pod(calls: Calls, name: str, namespace: str) -> None:
    """Make a pod with `managedFields` as its maker likes them."""
    fields = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "DEEP"}
    body = pod(name, namespace)
    body["metadata"]["managedFields"] = [fields]
    text = json.dumps({"apiVersion": "v1", "kind": "Pod", **body})
    deep = text.replace('"DEEP"', '{"f:a":' * DEEP + "{}" + "}" * DEEP)
    calls.answered(Call("POST", PODS.path(namespace), deep.encode()), "create a deep pod", PATIENCE_S)


def keep_pod_with_gpus(item: Mapping[str, Any]) -> PodFacts | None:
    facts = read_pod(item)
    return facts if facts.requests.of("nvidia.com/gpu") else None
