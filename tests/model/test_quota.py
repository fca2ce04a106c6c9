"""What a part of a device counts as."""

from hypothesis import given
from hypothesis import strategies as st

from corral.model.quota import counted_milli, least_device_mib


def test_the_largest_part_counts_in_whole_hundredths_and_never_more_than_the_device() -> None:
    assert counted_milli(250) == 250
    assert counted_milli(10, memory_mib=81920, device_mib=81920) == 1000
    assert counted_milli(10, memory_mib=1, device_mib=81920) == 10
    assert counted_milli(10, memory_mib=820, device_mib=81920) == 20
    assert counted_milli(500, memory_mib=20480, device_mib=81920, cores_percent=60) == 600
    assert counted_milli(10, memory_mib=90000, device_mib=81920) == 1000


def test_memory_of_a_device_that_does_not_say_how_much_it_has_counts_nothing_more() -> None:
    assert counted_milli(10, memory_mib=81920) == 10


def test_a_slice_counts_as_what_it_is_of_its_device() -> None:
    assert counted_milli(1000, memory_mib=9728, device_mib=9728, slice_milli=142) == 142


@given(st.integers(1, 200_000), st.integers(10, 1000))
def test_on_the_least_device_it_is_within_the_room_and_on_any_smaller_it_is_not(
    memory_mib: int, room_milli: int
) -> None:
    device_mib = least_device_mib(memory_mib, room_milli)
    assert counted_milli(0, memory_mib=memory_mib, device_mib=device_mib) <= room_milli
    if room_milli < 990 and device_mib > 1:
        assert counted_milli(0, memory_mib=memory_mib, device_mib=device_mib - 1) > room_milli // 10 * 10
