"""Who did not use what was granted, as far as that was measured."""

from corral.core.model.placing.allocation import Member
from corral.core.model.runs.run_history import HeldAllocation, MeteredHour
from corral.features.accounting.held_devices import HeldDevice
from corral.features.accounting.waste import UnusedGrant, unused_grants

HOUR_MS = 3_600_000


def allocation(number: int = 1, job: str = "7") -> HeldAllocation:
    return HeldAllocation(f"{job}.{number}", job, "sft", "alice", "p", "q", 0.0, 3600.0, (Member("n", ()),))


def unused(
    *devices: tuple[int, int, int | None], granted: int | None = 80_000, length_ms: int = HOUR_MS
) -> list[UnusedGrant]:
    """Of an attempt of an hour, with used and idle time and memory of each device."""
    held = [
        (HeldDevice(allocation(), "n", f"GPU-{number}", 1000, None, 0, length_ms), granted)
        for number in range(len(devices))
    ]
    rows = [
        MeteredHour(0, "7.1", f"GPU-{number}", used, idle, None, memory)
        for number, (used, idle, memory) in enumerate(devices)
    ]
    return unused_grants(held, [rows])


def test_a_job_that_used_everything_is_not_listed() -> None:
    assert unused((HOUR_MS, 0, 60_000)) == []
    assert unused((HOUR_MS // 2, HOUR_MS // 2, 24_000)) == []


def test_devices_that_were_idle_and_memory_that_stayed_free_are_told() -> None:
    (half,) = unused((HOUR_MS, 0, 60_000), (0, HOUR_MS, 0))
    assert (half.devices, half.devices_used, half.idle_ms, half.oversized) == (2, 1, HOUR_MS, False)
    (large,) = unused((HOUR_MS, 0, 23_999))
    assert (large.devices_used, large.oversized, large.memory_most_mib) == (1, True, 23_999)


def test_what_was_not_measured_is_not_called_waste() -> None:
    assert unused((0, HOUR_MS * 8 // 10, 0)) == []
    assert unused((HOUR_MS, 0, None)) == []
    assert unused((HOUR_MS, 0, 100), granted=None) == []
    assert unused((0, 500_000, 0), length_ms=500_000) == []


def test_of_each_job_its_last_attempt_counts() -> None:
    held = [(HeldDevice(allocation(number), "n", "GPU-0", 1000, None, 0, HOUR_MS), 80_000) for number in (1, 2)]
    wasted = [
        MeteredHour(0, "7.1", "GPU-0", 0, HOUR_MS, None, 0),
        MeteredHour(0, "7.2", "GPU-0", HOUR_MS, 0, None, 70_000),
    ]
    assert unused_grants(held, [wasted]) == []
    assert [one.allocation.id for one in unused_grants(held[::-1], [wasted])] == ["7.1"]
