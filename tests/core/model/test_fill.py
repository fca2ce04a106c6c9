import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.core.model.placing.fill import fill
from corral.core.model.placing.split import NoRoom, Strategy, split


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
