"""What is set apart is so from the step in which a device comes, whatever else comes or goes."""

import random
from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.set_apart import SetApart, set_apart
from corral.core.model.fact import AllocationEnded, NodeObserved, NodeRemoved, Observation, SiteArranged
from corral.core.model.queues.queue import Pool
from corral.core.model.view import View, ViewDraft


def node(name: str, gpus: int = 4, model: str = "NVIDIA A100-SXM4-80GB") -> Node:
    return Node(name, tuple(Device(f"GPU-{name}-{i}", i, model, 81920) for i in range(gpus)), 8000, 65536)


def sliced(of: Node, *uuids: str) -> Node:
    """The node with its first device cut into these slices."""
    first, *others = of.devices
    parts = (
        replace(first, uuid=uuid, index=len(of.devices) + i, parent_uuid=first.uuid, mig_profile="1g.10gb")
        for i, uuid in enumerate(uuids)
    )
    return replace(of, devices=(replace(first, mig_enabled=True), *others, *parts))


def apart(view: View, pool: str = "lab") -> list[str]:
    return sorted(uuid for here in view.set_apart[pool].values() for uuid in here)


def site(*gpus: str) -> SiteArranged:
    return SiteArranged(pools=(Pool("lab", gpus, users=("alice",)),))


@pytest.mark.parametrize(
    ("gpu", "has"),
    [
        ("GPU-b-1", ["GPU-b-1"]),
        ("b:1", ["GPU-b-1"]),
        ("b:*", ["GPU-b-0", "GPU-b-1"]),
        ("H100", ["GPU-c-0", "GPU-c-1"]),
        ("1", ["GPU-a-1", "GPU-b-1", "GPU-c-1"]),
        ("b:7", []),
        ("H100-NVL", []),
    ],
)
def test_a_device_that_comes_later_is_the_pools_in_the_step_in_which_it_comes(gpu: str, has: list[str]) -> None:
    view = View().advance([site(gpu)])
    assert apart(view) == []
    later = view.advance([NodeObserved(node("a", 2)), NodeObserved(node("b", 2)), NodeObserved(node("c", 2, "H100"))])
    assert apart(later) == has


def test_slices_belong_to_the_pool_of_their_device_however_it_is_cut() -> None:
    for gpu in ("GPU-a-0", "a:0", "0"):
        view = View().advance([NodeObserved(node("a")), site(gpu)])
        assert apart(view) == ["GPU-a-0"]
        cut = view.advance([NodeObserved(sliced(node("a"), "MIG-1", "MIG-2"))])
        assert apart(cut) == ["GPU-a-0", "MIG-1", "MIG-2"]
        assert apart(cut.advance([NodeObserved(sliced(node("a"), "MIG-3"))])) == ["GPU-a-0", "MIG-3"]
    one = View().advance([NodeObserved(sliced(node("a"), "MIG-1", "MIG-2")), site("MIG-2")])
    assert apart(one) == ["MIG-2"]


def test_a_gpu_that_takes_the_place_of_another_is_the_pools_where_the_place_is_named() -> None:
    before = node("a", 1)
    after = replace(before, devices=(replace(before.devices[0], uuid="GPU-new"),))
    assert apart(View().advance([NodeObserved(before), site("a:0"), NodeObserved(after)])) == ["GPU-new"]
    assert apart(View().advance([NodeObserved(before), site("GPU-a-0"), NodeObserved(after)])) == []


def test_a_node_that_leaves_takes_its_devices_with_it_and_brings_them_back() -> None:
    view = View().advance([site("b:*"), NodeObserved(node("a")), NodeObserved(node("b", 1)), NodeRemoved("b")])
    assert apart(view) == []
    assert apart(view.advance([NodeObserved(node("b", 1))])) == ["GPU-b-0"]


def test_the_reserved_part_is_that_of_all_gpus_at_each_step_and_each_node_has_its_share() -> None:
    view = View().advance([SiteArranged(pools=(Pool("lab", (), users=("alice",), part=0.3),))])
    shares = []
    for name in "abcd":
        view = view.advance([NodeObserved(node(name, 8))])
        shares.append([len(view.set_apart["lab"].get(each, ())) for each in sorted(view.nodes)])
    assert shares == [[2], [2, 2], [2, 2, 3], [2, 2, 3, 2]]
    assert len(apart(view.advance([NodeRemoved("b")]))) == int(24 * 0.3)


def test_the_reserved_part_counts_no_slices_and_takes_those_of_its_devices_too() -> None:
    pool = Pool("lab", (), users=("alice",), part=0.5)
    view = View().advance([SiteArranged(pools=(pool,)), NodeObserved(sliced(node("a", 2), "MIG-1", "MIG-2"))])
    assert apart(view) == ["GPU-a-0", "MIG-1", "MIG-2"]


def test_a_part_is_counted_as_a_person_does() -> None:
    assert len(set_apart({"x": Pool("x", (), part=0.29)}, {"a": node("a", 100)})["x"]["a"]) == 29


def test_however_nodes_came_and_went_pools_have_what_they_would_have_had_at_once() -> None:
    rng = random.Random(7)
    pools = (
        Pool("named", ("a:*", "b:1", "GPU-c-0"), users=("alice",)),
        Pool("models", ("H100",), users=("bob",)),
        Pool("rest", (), users=("carol",), part=0.4),
    )
    for _ in range(50):
        view = View().advance([SiteArranged(pools=pools)])
        for _ in range(20):
            name = rng.choice("abcde")
            came = node(name, rng.randint(0, 4), rng.choice(["A100", "H100"]))
            step: Observation = NodeRemoved(name) if rng.random() < 0.3 else NodeObserved(came)
            view = view.advance([step])
            assert view.set_apart == set_apart(view.pools, view.nodes)


def test_nodes_that_come_together_are_cut_once_and_no_step_leaves_them_uncut(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = []

    def cut(*args: Any, **named: Any) -> SetApart:
        cuts.append(named)
        return set_apart(*args, **named)

    pools = (Pool("lab", ("n00:*",), users=("alice",)), Pool("rest", (), users=("bob",), part=0.5))
    draft = ViewDraft(View().advance([SiteArranged(pools=pools)]))
    monkeypatch.setattr("corral.core.model.view.set_apart", cut)
    draft.apply([*(NodeObserved(node(f"n{i:02}")) for i in range(50)), NodeRemoved("n07")])
    assert len(cuts) == 1
    assert draft.view.set_apart == set_apart(draft.view.pools, draft.view.nodes)
    with pytest.raises(KeyError):
        draft.apply([NodeObserved(node("late")), AllocationEnded("none", "none", at=0.0, by="test")])
    assert "late" in draft.view.set_apart["rest"]
    draft.apply_uncut([NodeObserved(node("later"))])
    assert "later" in draft.freeze().set_apart["rest"]
    assert len(cuts) == 3
    draft.apply([NodeObserved(node("later"))])
    assert len(cuts) == 3, "nothing has changed"
