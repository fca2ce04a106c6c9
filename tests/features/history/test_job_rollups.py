"""The history of jobs and users against a slow reference: random lives, with gaps, clocks that are set, restarts."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.job_blocks import SERIES_A_PART, launch_and_part, pack, unpack
from corral.features.history.recording.levels import HistoryLevel, kept_levels
from corral.features.history.recording.readings import group_key, jobs_key
from corral.features.history.recording.rollup import NO_ROLL_UPS, RollUps, fold, roll_ups_of, selected
from corral.features.history.recording.series import DeviceReadings
from tests.features.history.life import DEVICES, T0, Life, Reading, by_step, series_number

SPAN = (int(T0) - 200_000, int(T0) + 200_000)

moves = st.one_of(
    st.tuples(st.just("second"), st.integers(0, 100), st.one_of(st.none(), st.integers(50, 700))),
    st.tuples(st.just("soon"), st.integers(0, 100), st.just(100)),
    st.tuples(st.just("wait"), st.integers(2, 4000), st.just(None)),
    st.tuples(st.just("back"), st.integers(1, 4000), st.just(None)),
    st.tuples(st.just("start"), st.integers(1, 70), st.sampled_from([("a",), ("b", "c"), ("c",), DEVICES])),
    st.tuples(st.just("end"), st.integers(1, 70), st.just(None)),
    st.tuples(st.just("write"), st.just(0), st.just(None)),
    st.tuples(st.just("restart"), st.just(0), st.just(None)),
)


def live(life: Life, move: tuple[str, int, object]) -> None:
    what, number, more = move
    match what:
        case "second":
            life.second(number, more)  # type: ignore[arg-type]
        case "soon":
            # A job that starts between two samples.
            life.clock.advance(0.25)
            life.start(100 + len(life.jobs), "b")
            life.second(number, 100, seconds=0.5)
        case "wait":
            life.second(50, 100, seconds=float(number))
        case "back":
            life.clock.advance(-float(number))
            for one in list(life.held):
                if life.held[one].created_at > life.clock.now():
                    del life.held[one]
        case "start" if number not in life.held and not any(key[0] == number for key in life.jobs):
            life.start(number, *more, share_milli=500)  # type: ignore[misc]
        case "end":
            life.held.pop(number, None)
        case "write":
            life.recorder.write()
        case "restart":
            life.recorder.close()
            life.restart()


def check(steps: RollUps, readings: list[Reading], level: HistoryLevel, latest: float) -> None:
    """What is past its time may have been forgotten."""
    steps = fold(steps, level.step_s)
    steps = selected(steps, steps.start >= latest - level.kept_s)
    every = by_step(readings, level.step_s)
    expected = {start: known for start, known in every.items() if start >= latest - level.kept_s}
    assert steps.start.tolist() == sorted(expected)
    for row, start in enumerate(sorted(expected)):
        known = [value for value, _ in expected[start]]
        assert steps.count[row] == len(known)
        assert (steps.least[row], steps.most[row]) == (min(known), max(known))
        assert steps.total[row] == pytest.approx(sum(known))
        assert steps.covered_s[row] == pytest.approx(sum(covers for _, covers in expected[start]), abs=1e-3)


@given(st.lists(moves, max_size=60))
@settings(deadline=None, max_examples=12)
def test_every_level_has_of_each_job_and_user_what_was_measured_of_them(
    lived: list[tuple[str, int, object]],
) -> None:
    with tempfile.TemporaryDirectory() as home:
        life = Life(Path(home) / "history.db")
        for move in lived:
            live(life, move)
        for level in kept_levels(7):
            for number, part, name in life.jobs:
                found = life.recorder.job_roll_ups(number, level, SPAN)
                _, parts = launch_and_part(found.series)
                series = found.series % SERIES_A_PART
                own = selected(found, (parts == part) & (series == series_number(name)))
                check(own, life.jobs[number, part, name], level, life.latest)
            for (user, name), readings in life.users.items():
                of_user = life.recorder.roll_ups(group_key("user", user), level, SPAN, [series_number(name)])
                check(of_user, readings, level, life.latest)
        life.recorder.close()


def test_a_block_is_one_piece_once_the_next_begins(tmp_path: Path) -> None:
    life = Life(tmp_path / "history.db")
    life.start(1, "a")
    for wait_s in (60, 60, 3600, 60):
        life.second(50, 100, seconds=wait_s)
    life.recorder.write()
    over, open_still = (data for _, data in HistoryFile(life.path).blocks(jobs_key(1), 60, 0, int(T0) + 10_000))
    assert len(list(unpack(over))) == 1
    assert len(list(unpack(open_still))) > 1
    life.recorder.close()


def test_a_block_of_jobs_comes_back_as_it_was() -> None:
    steps = roll_ups_of([DeviceReadings(T0 + at, 1.0, (at / 7, None, -at)) for at in range(50)], 10)
    (again,) = unpack(pack(steps))
    assert np.allclose(again.total, steps.total)
    assert again.bucket.tolist() == steps.bucket.tolist()
    assert [len(piece) for piece in unpack(pack(NO_ROLL_UPS) + pack(steps))] == [0, len(steps)]


@pytest.mark.parametrize("damage", [b"", b"nonsense", pack(NO_ROLL_UPS)[:-3]])
def test_a_damaged_block_of_jobs_is_told(damage: bytes) -> None:
    with pytest.raises(ValueError):
        list(unpack(damage))
