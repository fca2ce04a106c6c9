"""The plugin of a node serves one pod after the other."""

from contextlib import suppress
from typing import Any

import pytest

from corral.core.model.errors import BackendFailed, NodeLacks
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers, read
from corral.engines.kubernetes.binding.share_turns import ShareTurns
from tests.engines.kubernetes.manifests import pod

MARK = ("hami.io/bind-phase", "allocating")


class Pods:
    """The pods that the watch has reported."""

    def __init__(self) -> None:
        self.found: dict[str, PodOfOthers] = {}

    def subscribe(self, hear: Any) -> None:
        self.hear = hear

    def get(self, name: str, namespace: str) -> PodOfOthers | None:
        return self.found.get(name)

    def values(self) -> list[PodOfOthers]:
        return list(self.found.values())

    def report(self, name: str, node: str | None, phase: str, status: str = "Pending") -> PodRef:
        item = pod(name, "team", node=node)
        item["metadata"] |= {"uid": name, "annotations": {MARK[0]: phase}}
        self.found[name] = read({**item, "status": {"phase": status}})
        return self.found[name].ref


def can_bind(turns: ShareTurns, ref: PodRef) -> bool:
    with suppress(NodeLacks), turns.turn("n1", ref, MARK):
        return True
    with pytest.raises(NodeLacks, match=r"is bound once node n1 has given pod"), turns.turn("n1", ref, MARK):
        pass
    return False


def test_a_pod_is_bound_once_the_one_before_has_its_devices_or_has_gone() -> None:
    pods = Pods()
    turns = ShareTurns(pods, wait_s=0.0)  # type: ignore[arg-type]
    first, second = pods.report("first", None, ""), pods.report("second", None, "")
    assert can_bind(turns, first)
    assert not can_bind(turns, second)
    pods.report("first", "n1", "allocating")
    assert not can_bind(turns, second)
    assert can_bind(turns, first)
    pods.report("first", "n1", "success")
    assert can_bind(turns, second)
    pods.report("second", "n1", "allocating", "Failed")
    assert can_bind(turns, pods.report("third", None, ""))


def test_a_binding_that_failed_leaves_its_turn_to_others() -> None:
    pods = Pods()
    turns = ShareTurns(pods, wait_s=0.0)  # type: ignore[arg-type]
    first, second = pods.report("first", None, ""), pods.report("second", None, "")

    def fail() -> None:
        with turns.turn("n1", first, MARK):
            raise BackendFailed("the API server is away")

    with pytest.raises(BackendFailed, match="is away"):
        fail()
    assert can_bind(turns, second)
