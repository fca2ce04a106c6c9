"""Durations come from the clock of the boot; the wall clock may be set as it likes."""

import json
import os
import time
from pathlib import Path

import pytest

from corral.clock import ManualClock, SystemClock, uptime_s

DAY_S = 86_400.0
NEARLY_S = 5.0
"""Two readings of a clock in one test are this near on any machine."""


class Wall:
    """A wall clock that runs, and can be set."""

    def __init__(self) -> None:
        self.set_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.set_s


@pytest.fixture
def wall() -> Wall:
    return Wall()


def near(one: float, other: float) -> bool:
    return abs(one - other) < NEARLY_S


def test_it_begins_as_the_wall_clock_has_it_and_shows_what_it_has() -> None:
    clock = SystemClock()
    at = clock.now()
    assert near(at, time.time())
    assert clock.shown(at) == clock.taken(at) == at


@pytest.mark.parametrize("set_s", [DAY_S, -DAY_S, 7.0])
def test_a_wall_clock_that_is_set_changes_no_duration_and_moves_what_is_shown(wall: Wall, set_s: float) -> None:
    clock = SystemClock(wall=wall)
    before = clock.now()
    wall.set_s = set_s
    assert 0 <= clock.now() - before < NEARLY_S
    assert clock.shown(before) == before + set_s
    assert near(clock.shown(clock.now()), wall())
    assert clock.taken(clock.shown(before)) == before
    wall.set_s = 0.0
    assert clock.shown(before) == before


def test_what_was_before_this_boot_is_shown_as_it_was_written(wall: Wall) -> None:
    clock = SystemClock(wall=wall)
    long_ago = clock.boot_at - DAY_S
    wall.set_s = 3600.0
    assert clock.shown(long_ago) == clock.taken(long_ago) == long_ago


def test_a_time_that_the_wall_clock_never_showed_is_not_taken_for_one_to_come(wall: Wall) -> None:
    clock = SystemClock(wall=wall)
    wall.set_s = DAY_S
    unseen = clock.boot_at + DAY_S / 2
    assert clock.taken(unseen) == clock.boot_at, "an hour ago, soon after a boot, is before now"
    wall.set_s = -DAY_S
    assert near(clock.taken(wall() - 3600), clock.now() - 3600) or clock.taken(wall() - 3600) <= clock.boot_at


def test_the_next_server_of_the_boot_counts_on_where_the_last_one_was(wall: Wall, tmp_path: Path) -> None:
    before = SystemClock(tmp_path / "clock", wall=wall)
    wall.set_s = DAY_S
    after = SystemClock(tmp_path / "clock", wall=wall)
    assert after.boot_at == before.boot_at
    assert near(after.now(), before.now())


def test_where_nothing_is_measured_the_wall_clock_is_believed_anew_and_that_is_kept(wall: Wall, tmp_path: Path) -> None:
    SystemClock(tmp_path / "clock", wall=wall)
    wall.set_s = DAY_S
    anew = SystemClock(tmp_path / "clock", wall=wall, anew=True)
    assert near(anew.now(), wall())
    assert SystemClock(tmp_path / "clock").boot_at == anew.boot_at


@pytest.mark.parametrize(
    "written",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"boot_id": "of-another-boot", "boot_at": 1.0}',
        '{"boot_id": "BOOT", "boot_at": NaN}',
        '{"boot_id": "BOOT", "boot_at": 1e300}',
        '{"boot_id": "BOOT", "boot_at": -1e12}',
        '{"boot_id": "BOOT", "boot_at": "soon"}',
        '{"boot_id": "BOOT", "boot_at": null}',
        "[" * 1000,
    ],
)
def test_a_file_of_another_boot_or_of_nonsense_is_written_afresh(tmp_path: Path, written: str) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (tmp_path / "clock").write_text(written.replace("BOOT", boot_id))
    clock = SystemClock(tmp_path / "clock")
    assert near(clock.now(), time.time())
    assert json.loads((tmp_path / "clock").read_text()) == {"boot_id": boot_id, "boot_at": clock.boot_at}


def test_a_fifo_in_its_place_is_not_waited_for_and_a_link_not_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    SystemClock(tmp_path / "other")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    for name in ("fifo", "link"):
        assert near(SystemClock(tmp_path / name).now(), time.time())
        assert (tmp_path / name).is_file()
        assert not (tmp_path / name).is_symlink()


def test_a_directory_that_takes_no_file_costs_nothing_but_the_memory_of_it(tmp_path: Path) -> None:
    assert near(SystemClock(tmp_path / "missing" / "clock").now(), time.time())


def test_the_time_since_the_boot_counts_suspends() -> None:
    assert uptime_s() >= time.monotonic() - NEARLY_S


def test_a_manual_clock_can_have_its_wall_clock_set() -> None:
    clock = ManualClock(1000.0)
    clock.step(DAY_S)
    clock.advance(5)
    assert (clock.now(), clock.monotonic()) == (1005.0, 5.0)
    assert (clock.shown(1000.0), clock.taken(1000.0 + DAY_S)) == (1000.0 + DAY_S, 1000.0)
