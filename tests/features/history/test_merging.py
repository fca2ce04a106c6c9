"""What is written in batches and read back, against a slow reference: over blocks, gaps and clocks that are set."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.features.history.recording.blocks import _HEAD, count_pieces, pack, unpack
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.levels import HistoryLevel, kept_levels
from corral.features.history.recording.merging import MOST_PIECES, blocks_with, roll_ups_between
from corral.features.history.recording.rollup import joined, quantile, roll_ups_of
from corral.features.history.recording.series import DeviceReadings
from tests.features.history.test_rollup import T0, check, runs

LEVELS = kept_levels(7)
AROUND = (T0 - 10 * 86_400, T0 + 10 * 86_400)


def file_of(directory: Path) -> HistoryFile:
    path = directory / "history.db"
    path.unlink(missing_ok=True)
    return HistoryFile(path)


def write(file: HistoryFile, readings: Sequence[DeviceReadings], levels: Sequence[HistoryLevel] = LEVELS) -> None:
    file.write(blocks_with(file, levels, "GPU-a", readings))


@given(runs(), st.integers(1, 20), st.integers(0, 10))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_level_has_what_was_written_and_what_waits(
    tmp_path: Path, readings: list[DeviceReadings], size: int, waiting: int
) -> None:
    file = file_of(tmp_path)
    written, rest = readings[: len(readings) - waiting], readings[len(readings) - waiting :]
    for first in range(0, len(written), size):
        write(file, written[first : first + size])
    for level in LEVELS:
        found = roll_ups_between(file, level, "GPU-a", rest, span=AROUND, series=(0, 1))
        check(found, readings, level.step_s)
    file.close()


def test_a_block_stays_few_pieces_and_is_one_when_the_next_has_begun(tmp_path: Path) -> None:
    file, (level, *_) = file_of(tmp_path), LEVELS
    start = T0 // level.block_s * level.block_s
    for second in range(level.block_s):
        write(file, [DeviceReadings(start + second, 1.0, (float(second),))], [level])
        ((_, data),) = file.blocks("GPU-a", level.step_s, start, start)
        assert count_pieces(data) < MOST_PIECES
    assert count_pieces(data) > 1
    write(file, [DeviceReadings(start + level.block_s, 1.0, (5.0,))], [level])
    ((_, data),) = file.blocks("GPU-a", level.step_s, start, start)
    assert count_pieces(data) == 1
    assert sum(part.count.sum() for part in unpack(data)) == level.block_s
    file.close()


@pytest.mark.parametrize("apart", [True, False])
def test_a_series_is_read_without_the_others_and_without_buckets(apart: bool) -> None:
    steps = roll_ups_of([DeviceReadings(T0 + i, 1.0, (float(i), 50.0, None, -3.5)) for i in range(40)], 10)
    data = pack(steps, apart=apart)
    parts = list(unpack(data, {3}))
    assert [(set(part.series), len(part)) for part in parts] == [({3}, 4)]
    assert quantile(parts[0], 0.5).tolist() == pytest.approx([-3.5] * 4, rel=0.01)
    bare = joined(list(unpack(data, {0, 1}, buckets=False)))
    assert bare.total.tolist() == joined(list(unpack(data, {0, 1}))).total.tolist()
    assert len(bare.owner) == 0


def test_a_damaged_number_of_steps_takes_no_memory() -> None:
    data = bytearray(pack(roll_ups_of([DeviceReadings(T0 + at, 1.0, (5.0,) * 10) for at in range(3)], 1)))
    rows_at = _HEAD.size + 2
    data[rows_at : rows_at + 4] = b"\xff\xff\xff\x7f"
    with pytest.raises(ValueError, match="more steps than there are bytes"):
        list(unpack(bytes(data)))


@pytest.mark.parametrize("cut", [0, 3, 20, 40, -1])
def test_a_block_that_was_cut_off_is_told(cut: int) -> None:
    data = pack(roll_ups_of([DeviceReadings(T0 + i, 1.0, (i * 1.5,)) for i in range(400)], 1))
    with pytest.raises(ValueError):
        list(unpack(data[:cut]))
    with pytest.raises(ValueError):
        list(unpack(data + data[: cut or 3]))
