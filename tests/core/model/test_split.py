"""A share is split exactly as its users know it from elsewhere, and never over what a device has."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.core.model.placing.split import NoRoom, Strategy, fill, split

VECTORS = [
    ("the least free device that holds it all", 100, [300, 200, 100], [0, 0, 100]),
    ("the next one up", 150, [300, 200, 100], [0, 150, 0]),
    ("two equal parts of two unequal devices", 400, [300, 200, 100], [200, 200, 0]),
    ("two equal parts", 500, [300, 300], [250, 250]),
    ("an even three beats an uneven two", 1000, [300, 300, 900], [300, 300, 400]),
    ("the last of equals", 200, [1000, 1000], [0, 200]),
    ("two whole devices beat three nearly whole", 2000, [1000, 1000, 1000], [0, 1000, 1000]),
    ("the least room of the equally even", 6000, [2000, 3000, 3000, 5000], [0, 3000, 3000, 0]),
    ("the fewest of the equally even", 11000, [3000, 3000, 4000, 4500, 5000, 5000], [2750, 2750, 2750, 2750, 0, 0]),
    ("a hundredth left over goes to the first of them", 1990, [1000, 1000, 1000], [0, 1000, 990]),
]


@pytest.mark.parametrize(("claim", "wanted", "free", "parts"), VECTORS, ids=[v[0] for v in VECTORS])
def test_evenly_takes(claim: str, wanted: int, free: list[int], parts: list[int]) -> None:
    assert split(wanted, free) == tuple(parts)


@pytest.mark.parametrize(("strategy", "held"), [(Strategy.EVENLY, [600, 800]), (Strategy.FILL, [400, 1000])])
def test_a_fifth_and_then_six_fifths_of_two_devices(strategy: Strategy, held: list[int]) -> None:
    first = split(200, [1000, 1000], strategy=strategy)
    assert isinstance(first, tuple)
    second = split(1200, [1000 - part for part in first], strategy=strategy)
    assert isinstance(second, tuple)
    assert [a + b for a, b in zip(first, second, strict=True)] == held


@pytest.mark.parametrize("strategy", Strategy)
def test_more_than_is_free_is_no_room_and_says_how_much_is_missing(strategy: Strategy) -> None:
    answer = split(700, [300, 200, 100], strategy=strategy)
    assert isinstance(answer, NoRoom)
    assert answer.reason == "0.7 of a GPU does not fit: 0.6 is free in all, 0.1 too little"


@pytest.mark.parametrize("strategy", Strategy)
def test_no_device_at_all_is_no_room(strategy: Strategy) -> None:
    assert split(100, [], strategy=strategy) == NoRoom(100, 0)


@pytest.mark.parametrize("wanted", [0, -10, 5])
def test_a_share_below_a_hundredth_is_refused(wanted: int) -> None:
    with pytest.raises(Refused, match=r"below the least, 0\.01"):
        split(wanted, [1000])


def test_a_site_that_refuses_fragments_gets_whole_devices_and_one_part_or_nothing() -> None:
    refused = split(1200, [1000, 1000], refuse_fragmenting=True)
    assert refused == NoRoom(1200, 2000, (600, 600))
    assert "0.6 + 0.6" in refused.reason
    assert split(1200, [1000, 1000], strategy=Strategy.FILL, refuse_fragmenting=True) == (1000, 200)
    assert split(500, [300, 800], refuse_fragmenting=True) == (0, 500)


free_shares = st.lists(st.integers(0, 100).map(lambda hundredths: hundredths * 10), min_size=1, max_size=16)


@given(free=free_shares, wanted=st.integers(1, 1600).map(lambda n: n * 10), strategy=st.sampled_from(Strategy))
def test_a_split_is_exact_and_never_over_what_a_device_has(free: list[int], wanted: int, strategy: Strategy) -> None:
    parts = split(wanted, free, strategy=strategy)
    if isinstance(parts, NoRoom):
        assert sum(free) < wanted
        return
    assert sum(parts) == wanted
    assert all(0 <= part <= room for part, room in zip(parts, free, strict=True))


def evenly_by_the_letter(wanted: int, free: list[int]) -> list[int]:
    """In hundredths: the rule as its users read it, every window written out, the best of a plain list."""
    order = sorted(range(len(free)), key=lambda i: free[i], reverse=True)
    holders = [i for i in order if free[i] >= wanted]
    if holders:
        return [wanted if i == holders[-1] else 0 for i in range(len(free))]
    found = []
    for size in range(1, len(free) + 1):
        for start in range(len(free) - size + 1):
            window = order[start : start + size]
            if sum(free[i] for i in window) < wanted:
                continue
            gives: dict[int, int] = {}
            while True:
                left, others = wanted - sum(gives.values()), [i for i in window if i not in gives]
                small = [i for i in others if free[i] * len(others) < left]
                if not small:
                    break
                gives |= {i: free[i] for i in small}
            for rank, i in enumerate(others):
                gives[i] = left // len(others) + (1 if rank < left % len(others) else 0)
            differences = sum(abs(gives[a] - gives[b]) for a, b in pairwise(window))
            found.append(((differences, size, -start), gives))
    gives = min(found, key=lambda one: one[0])[1]
    return [gives.get(i, 0) for i in range(len(free))]


@given(
    free=st.one_of(
        st.lists(st.integers(0, 100), min_size=1, max_size=8),
        st.lists(st.sampled_from([0, 20, 30, 50, 100, 450, 500]), min_size=1, max_size=8),
    ),
    part=st.integers(1, 100),
)
def test_evenly_is_what_the_rule_says_to_the_letter(free: list[int], part: int) -> None:
    wanted = max(1, sum(free) * part // 100)
    if sum(free) < wanted:
        return
    expected = evenly_by_the_letter(wanted, free)
    assert split(wanted * 10, [room * 10 for room in free]) == tuple(10 * part for part in expected)


@given(free=free_shares, wanted=st.integers(1, 1600).map(lambda n: n * 10))
def test_parts_are_whole_hundredths_and_nothing_is_lost(free: list[int], wanted: int) -> None:
    parts = split(wanted, free)
    if isinstance(parts, tuple):
        assert sum(parts) == wanted
        assert all(part % 10 == 0 for part in parts)


@given(
    devices=st.integers(1, 8),
    asks=st.lists(st.tuples(st.integers(1, 300), st.booleans(), st.booleans()), max_size=30),
    strategy=st.sampled_from(Strategy),
)
def test_after_any_sequence_of_taking_and_giving_back_all_is_free_again(
    devices: int, asks: list[tuple[int, bool, bool]], strategy: Strategy
) -> None:
    free = [1000] * devices
    held: list[tuple[int, ...]] = []
    for hundredths, give_back, oldest in asks:
        if give_back and held:
            parts = held.pop(0 if oldest else -1)
            free = [room + part for room, part in zip(free, parts, strict=True)]
            continue
        answer = split(hundredths * 10, free, strategy=strategy)
        if isinstance(answer, tuple):
            held.append(answer)
            free = [room - part for room, part in zip(free, answer, strict=True)]
        assert all(0 <= room <= 1000 for room in free)
    for parts in held:
        free = [room + part for room, part in zip(free, parts, strict=True)]
    assert free == [1000] * devices


@given(free=free_shares, wanted=st.integers(1, 100).map(lambda n: n * 10))
def test_evenly_never_splits_what_one_device_holds(free: list[int], wanted: int) -> None:
    parts = split(wanted, free)
    if max(free) >= wanted:
        assert isinstance(parts, tuple)
        assert [part for part in parts if part] == [wanted]


@pytest.mark.parametrize(
    ("wanted", "free", "parts"),
    [
        (2500, (1000, 1000, 1000), (1000, 1000, 500)),
        (1200, (1000, 800), (1000, 200)),
        (1200, (800, 1000), (200, 1000)),
        # What is left over goes where it leaves the least room, not to a device that is all free.
        (2500, (1000, 1000, 1000, 600), (1000, 1000, 0, 500)),
        (1500, (900, 500, 1000, 500), (0, 0, 1000, 500)),
        # No whole device is free, or too few, or none alone has what is left over.
        (1200, (700, 800), (400, 800)),
        (2500, (1000, 900, 700), (1000, 900, 600)),
        (1500, (1000, 300, 300), (1000, 300, 200)),
        (500, (300, 300), (300, 200)),
        (2000, (1000, 1000, 1000), (1000, 1000, 0)),
    ],
)
def test_whole_devices_come_first_and_the_rest_leaves_the_least_room(
    wanted: int, free: tuple[int, ...], parts: tuple[int, ...]
) -> None:
    assert fill(wanted, free) == parts


def test_the_whole_devices_may_be_chosen() -> None:
    assert fill(2500, (1000, 1000, 1000, 1000), wholes=(1, 3)) == (0, 1000, 500, 1000)
    assert fill(1500, (1000, 500), wholes=(1,)) == (1000, 500)


def test_what_does_not_fit_or_would_fragment_is_answered_as_a_plain_split_answers() -> None:
    assert fill(2500, (1000, 1000, 400)) == NoRoom(2500, 2400)
    assert fill(1500, (1000, 300, 300), refuse_fragmenting=True) == NoRoom(1500, 1600, (1000, 300, 200))
    assert fill(1500, (1000, 300, 600), refuse_fragmenting=True) == (1000, 0, 500)
    with pytest.raises(Refused):
        fill(5, (1000,))


amounts = st.lists(st.one_of(st.just(1000), st.integers(0, 1000)), min_size=1, max_size=6)


@given(st.integers(1, 600).map(lambda n: 10 * n), amounts, st.booleans())
def test_a_fill_gives_what_is_asked_wherever_a_plain_split_does_with_no_fewer_whole_devices(
    wanted: int, free: list[int], refused: bool
) -> None:
    plain = split(wanted, free, strategy=Strategy.FILL, refuse_fragmenting=refused)
    parts = fill(wanted, free, refuse_fragmenting=refused)
    assert isinstance(parts, NoRoom) == isinstance(plain, NoRoom)
    if isinstance(parts, NoRoom) or isinstance(plain, NoRoom):
        return
    assert sum(parts) == wanted
    assert all(0 <= part <= room for part, room in zip(parts, free, strict=True))
    assert parts.count(1000) >= plain.count(1000)
