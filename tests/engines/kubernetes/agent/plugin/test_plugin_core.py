"""Which pod an allocation is for: exact for planned pods, and no device twice whatever the kubelet does."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.engines.kubernetes.agent.agent_report import GivenDevices, GivenShare
from corral.engines.kubernetes.agent.kubelet_api.allocations import KubeletChoice
from corral.engines.kubernetes.agent.plugin.bound_pods import BoundPod, ContainerAsk
from corral.engines.kubernetes.agent.plugin.offers import Offer, offers
from corral.engines.kubernetes.agent.plugin.plugin_core import (
    Book,
    GivenToContainer,
    NotMatched,
    matched,
    preferred,
    reconciled,
    shares,
)
from corral.engines.kubernetes.inventory.planned_devices import PlannedDevice
from tests.engines.kubernetes.agent.plugin.hosts import MEMORY_MIB, gpu, healthy, node_of, uuid

WHOLE, CORES, MEMORY = "nvidia.com/gpu", "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
EIGHT = node_of(*(gpu(number) for number in range(8)))
SHARED = node_of(*(gpu(number, means=Means.HOOK) for number in range(2)))


def offer_of(node: object = EIGHT) -> Offer:
    (found,) = offers(node, healthy(node.devices))  # type: ignore[attr-defined, arg-type]
    return found


GPUS, PARTS = offer_of(), offer_of(SHARED)
FREE = KubeletChoice(tuple(sorted(GPUS.all_ids)), (), 1)


def pod(name: str, *numbers: int, count: int | None = None, planned: bool = True, at: int = 0) -> BoundPod:
    """A pod that asks for whole GPUs, and the plan for it."""
    ask = ContainerAsk("main", False, {WHOLE: count or len(numbers)})
    plan = tuple(PlannedDevice(uuid(number)) for number in numbers) if planned else None
    return BoundPod("team", name, f"uid-{name}", (ask,), plan, version=at)


def part(name: str, number: int, units: int, mib: int, **asked: int) -> BoundPod:
    """A pod that asks for a part of a GPU."""
    plan = (PlannedDevice(uuid(number), units * 10, mib, Means.HOOK),)
    return BoundPod("team", name, f"uid-{name}", (ContainerAsk("main", False, {CORES: units, **asked}),), plan)


def parts(number: int, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{uuid(number)}::{one}" for one in numbers)


def book(*pods: BoundPod, given: tuple[GivenToContainer, ...] = ()) -> Book:
    return Book(pods, given)


def whole(owner: BoundPod, *numbers: int) -> GivenToContainer:
    return GivenToContainer("team", owner.name, owner.uid, "main", WHOLE, tuple(uuid(number) for number in numbers))


def test_the_preferred_devices_are_those_planned_for_the_next_pod() -> None:
    pods = (pod("later", 5, at=2), pod("first", 3, at=1))
    assert preferred(GPUS, book(*pods), EIGHT, FREE) == (uuid(3),)
    after = book(*pods, given=(whole(pods[1], 3),))
    assert preferred(GPUS, after, EIGHT, FREE) == (uuid(5),)


def test_devices_are_matched_to_the_pod_for_which_they_were_planned() -> None:
    pods = book(pod("a", 1), pod("b", 2))
    assert matched(GPUS, pods, (uuid(2),)).pod == "b"
    assert matched(GPUS, pods, (uuid(1),)).pod == "a"


def test_a_pod_without_a_plan_gets_well_connected_devices_that_are_planned_for_nobody() -> None:
    pods = book(pod("free", count=2, planned=False), pod("planned", 0, at=1))
    chosen = preferred(GPUS, pods, EIGHT, replace(FREE, count=2))
    assert chosen == (uuid(2), uuid(3))
    assert matched(GPUS, pods, chosen).pod == "free"
    with pytest.raises(NotMatched, match="planned for another pod"):
        matched(GPUS, pods, (uuid(0), uuid(4)))


def test_required_devices_are_among_the_preferred_ones() -> None:
    pods = book(pod("free", count=2, planned=False))
    assert preferred(GPUS, pods, EIGHT, KubeletChoice(FREE.available, (uuid(5),), 2)) == (uuid(5), uuid(4))


def test_devices_that_were_not_planned_are_refused_in_words() -> None:
    with pytest.raises(NotMatched) as refused:
        matched(GPUS, book(pod("a", 1)), (uuid(2),))
    assert str(refused.value) == (
        f"pod team/a is planned on {uuid(1)}, and the kubelet chose {uuid(2)}; delete the pod, and it is planned again"
    )


def test_an_allocation_for_a_deleted_pod_is_refused() -> None:
    with pytest.raises(NotMatched, match="the pod may have been deleted"):
        matched(GPUS, book(pod("other", 1, 2)), (uuid(1),))


@pytest.mark.parametrize(
    ("ids", "why"),
    [(("GPU-x",), "has no nvidia.com/gpu GPU-x"), ((uuid(1), uuid(1)), "has no"), ((), "has no")],
)
def test_devices_that_do_not_exist_are_refused(ids: tuple[str, ...], why: str) -> None:
    with pytest.raises(Refused, match=why):
        matched(GPUS, book(pod("a", 1)), ids)


def test_a_device_that_fell_ill_after_the_kubelet_chose_it_is_refused() -> None:
    samples = healthy(EIGHT.devices)
    samples[uuid(1)] = replace(samples[uuid(1)], fault="it is lost")
    (ill,) = offers(EIGHT, samples)
    with pytest.raises(Refused, match="it is lost"):
        matched(ill, book(pod("a", 1)), (uuid(1),))


def test_a_plan_that_makes_no_sense_gives_no_device() -> None:
    with pytest.raises(NotMatched, match="cannot be read"):
        matched(GPUS, book(replace(pod("a", count=1, planned=False), bad_plan=True)), (uuid(1),))


def test_a_pod_that_plans_for_itself_what_another_has_does_not_get_it() -> None:
    owner = pod("owner", 1)
    with pytest.raises(NotMatched, match="which pod team/owner has"):
        matched(GPUS, book(owner, pod("thief", 1), given=(whole(owner, 1),)), (uuid(1),))


def test_a_pod_that_plans_more_than_it_asks_for_keeps_nothing_from_others() -> None:
    greedy = pod("greedy", *range(8), count=1)
    free = pod("free", count=1, planned=False, at=1)
    assert matched(GPUS, book(greedy, free, given=(whole(greedy, 0),)), (uuid(1),)).pod == "free"
    waiting = book(replace(greedy, containers=(ContainerAsk("main", False, {WHOLE: 2}),)), free)
    assert matched(GPUS, waiting, (uuid(1),)).pod == "free"


def test_devices_of_an_init_container_are_the_pods_later() -> None:
    asks = (ContainerAsk("init", True, {WHOLE: 1}), ContainerAsk("main", False, {WHOLE: 1}))
    both = replace(pod("a", 1), containers=asks)
    first = matched(GPUS, book(both), (uuid(1),))
    assert first.container == "init"
    assert matched(GPUS, book(both, given=(first,)), (uuid(1),)).container == "main"


def test_containers_of_one_pod_divide_its_plan() -> None:
    asks = tuple(ContainerAsk(name, False, {WHOLE: 1}) for name in ("left", "right"))
    both = replace(pod("a", 1, 2), containers=asks)
    first = matched(GPUS, book(both), (uuid(2),))
    assert preferred(GPUS, book(both, given=(first,)), EIGHT, FREE) == (uuid(1),)
    with pytest.raises(NotMatched):
        matched(GPUS, book(both, given=(first,)), (uuid(2),))


def test_a_part_stays_on_the_device_planned_for_it() -> None:
    pods = book(part("a", 1, 30, 8192))
    choice = KubeletChoice((*parts(0, *range(100)), *parts(1, *range(100))), (), 30)
    chosen = preferred(PARTS, pods, SHARED, choice)
    assert chosen == parts(1, *range(30))
    assert matched(PARTS, pods, chosen).memory_mib == 8192


def test_a_device_that_a_pod_has_whole_is_given_in_parts_to_nobody_after_its_sharing_was_changed() -> None:
    holder = pod("holder", 0)
    asks = BoundPod("team", "half", "uid-half", (ContainerAsk("main", False, {CORES: 50, MEMORY: 160}),))
    now = book(holder, asks, given=(whole(holder, 0),))
    choice = KubeletChoice((*parts(0, *range(100)), *parts(1, *range(100))), (), 50)
    assert set(preferred(PARTS, now, SHARED, choice) or ()) <= set(parts(1, *range(100)))
    with pytest.raises(NotMatched, match=rf"was to get {uuid(0)}, which pod team/holder has as nvidia\.com/gpu"):
        matched(PARTS, now, parts(0, *range(50)))
    planned = book(holder, part("half", 0, 50, 40960), given=(whole(holder, 0),))
    with pytest.raises(NotMatched, match=r"has as nvidia\.com/gpu"):
        matched(PARTS, planned, parts(0, *range(50)))


def test_a_third_half_is_refused_with_what_is_free() -> None:
    halves = [part(name, 1, 50, 40960) for name in ("a", "b", "c")]
    taken = tuple(
        GivenToContainer("team", one.name, one.uid, "main", CORES, parts(1, *range(at, at + 50)), 40960)
        for one, at in zip(halves[:2], (0, 50), strict=True)
    )
    with pytest.raises(NotMatched, match=f"{uuid(1)}, of which 0 of 100 are free, and the kubelet chose 50 of"):
        matched(PARTS, book(*halves, given=taken), parts(0, *range(50)))


def test_memory_beyond_that_of_the_device_is_refused_by_how_much() -> None:
    first, second = part("a", 1, 50, 60000), part("b", 1, 50, 30000)
    has = matched(PARTS, book(first), parts(1, *range(50)))
    with pytest.raises(Refused) as refused:
        matched(PARTS, book(first, second, given=(has,)), parts(1, *range(50, 100)))
    assert "is to get 30000 MiB" in str(refused.value)
    assert f"has {MEMORY_MIB} MiB, of which {MEMORY_MIB - 60000} MiB are free" in str(refused.value)


def test_the_memory_that_a_container_asks_for_counts_before_its_plan() -> None:
    assert matched(PARTS, book(part("a", 1, 50, 60000, **{MEMORY: 4})), parts(1, *range(50))).memory_mib == 1024


def test_equal_pods_that_got_each_others_devices_are_exchanged() -> None:
    left, right = pod("left", 1), pod("right", 2)
    kept = book(left, right, given=(whole(left, 1), whole(right, 2)))
    told = (
        GivenDevices("team", "left", "main", WHOLE, (uuid(2),)),
        GivenDevices("team", "right", "main", WHOLE, (uuid(1),)),
    )
    found = reconciled(kept, told, (WHOLE,))
    assert set(found.given) == {whole(left, 2), whole(right, 1)}
    assert not found.lapsed


def test_a_pod_gets_its_devices_again_if_the_kubelet_has_lost_its_record() -> None:
    owner, other = pod("owner", count=1, planned=False), pod("other", count=1, planned=False, at=1)
    kept = reconciled(book(owner, other, given=(whole(owner, 6),)), (), (WHOLE,))
    assert preferred(GPUS, kept, EIGHT, FREE) == (uuid(6),)
    assert matched(GPUS, kept, (uuid(6),)).pod == "owner"
    assert matched(GPUS, kept, (uuid(1),)).pod == "other"


def test_what_a_pod_had_that_is_gone_is_free() -> None:
    gone, there = pod("gone", 1), pod("there", 1)
    assert reconciled(book(there, given=(whole(gone, 1),)), None, (WHOLE,)).given == ()


def test_shares_of_the_containers_of_a_pod_are_added() -> None:
    given_parts = [
        GivenToContainer("team", "a", "uid-a", name, CORES, parts(1, *numbers), 1000)
        for name, numbers in (("x", range(10)), ("y", range(10, 30)))
    ]
    assert shares(given_parts) == (GivenShare("team", "a", "uid-a", uuid(1), 300, 2000),)
    assert shares([whole(pod("b", 3), 3)]) == (GivenShare("team", "b", "uid-b", uuid(3), 1000, None),)


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_no_device_is_given_twice_and_planned_pods_get_their_plans(seed: int) -> None:
    """A kubelet that asks for what is preferred, in any order of pods, and forgets the pods that end."""
    chance = random.Random(seed)
    pods, kept = list[BoundPod](), tuple[GivenToContainer, ...]()
    free_plan = set(range(8))
    for step in range(20):
        alive = {one.pod_uid for one in kept}
        if alive and chance.random() < 0.3:
            gone = chance.choice(sorted(alive))
            free_plan |= {number for one in pods if one.uid == gone for number in _numbers(one, kept)}
            pods = [one for one in pods if one.uid != gone]
            kept = reconciled(Book(tuple(pods), kept), None, (WHOLE,)).given
        count = chance.randint(1, 3)
        if len(free_plan) < count:
            continue
        plan = chance.sample(sorted(free_plan), count)
        planned = chance.random() < 0.6
        pods.append(pod(f"p{step}", *(plan if planned else ()), count=count, planned=planned, at=step))
        taken = {one for held in kept for one in held.device_ids}
        available = sorted(GPUS.all_ids - taken, key=lambda _: chance.random())
        now = Book(tuple(pods), kept)
        chosen = preferred(GPUS, now, EIGHT, KubeletChoice(tuple(available), (), count))
        assert chosen is not None
        found = matched(GPUS, now, chosen)
        assert found.pod == f"p{step}"
        if planned:
            assert set(found.device_ids) == {uuid(number) for number in plan}
        kept = (*kept, found)
        ids = [one for held in kept for one in held.device_ids]
        assert len(ids) == len(set(ids))
        free_plan -= {number for number in range(8) if uuid(number) in ids}


def _numbers(one: BoundPod, kept: tuple[GivenToContainer, ...]) -> set[int]:
    return {
        number for number in range(8) for held in kept if held.pod_uid == one.uid and uuid(number) in held.device_ids
    }


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_a_kubelet_that_chooses_at_random_gives_no_device_twice(seed: int) -> None:
    chance = random.Random(seed)
    halves = [part(f"p{number}", chance.randint(0, 1), chance.choice((20, 50, 100)), 8192) for number in range(6)]
    kept = tuple[GivenToContainer, ...]()
    for _ in range(15):
        count = chance.choice((20, 50, 100))
        ids = tuple(chance.sample(sorted(PARTS.all_ids), count))
        if chance.random() < 0.7:
            ids = parts(chance.randint(0, 1), *chance.sample(range(100), count))
        try:
            found = matched(PARTS, Book(tuple(halves), kept), ids)
        except Refused:
            continue
        kept = (*kept, found)
        given_ids = [one for held in kept for one in held.device_ids]
        assert len(given_ids) == len(set(given_ids))
        owner = next(one for one in halves if one.uid == found.pod_uid)
        assert owner.plan is not None
        assert all(one.startswith(owner.plan[0].uuid) for one in found.device_ids)


@pytest.mark.parametrize("asked", [{}, {MEMORY: 0}])
def test_no_part_comes_without_a_limit_of_memory(asked: dict[str, int]) -> None:
    with pytest.raises(Refused, match="less than 1 MiB"):
        matched(PARTS, book(part("p", 0, 30, 0, **asked)), parts(0, *range(30)))
