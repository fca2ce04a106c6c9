"""A disk without room stops the history alone: nothing is raised, what is there is still told, and it goes on later."""

import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.model.devices.device import DeviceSample
from corral.features.history.asking import HistoryQueries
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.levels import kept_levels
from corral.features.history.recording.recorder import WRITE_INTERVAL_S, HistoryRecorder

T0 = 1_700_000_000.0
DEVICES = 4

NoRoom = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this process may not mount a file system")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_stops_the_history_alone(small_disk: Path) -> None:
    @contextmanager
    def filled() -> Iterator[None]:
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(65536)):
                pass
        assert os.statvfs(small_disk).f_bavail == 0
        try:
            yield
        finally:
            ballast.unlink()

    stops_and_goes_on(small_disk / "history.db", filled)


def test_a_file_that_may_not_grow_stops_the_history_alone(tmp_path: Path) -> None:
    @contextmanager
    def no_larger() -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    stops_and_goes_on(tmp_path / "history.db", no_larger)


def stops_and_goes_on(path: Path, without_room: NoRoom) -> None:
    """A recorder of some devices with readings that do not compress, before, while and after there is no room."""
    clock, samples, draw = ManualClock(T0), dict[str, DeviceSample](), random.Random(1)
    recorder = HistoryRecorder(HistoryFile(path), lambda: samples, clock, kept_levels(7), 1.0)

    def run(seconds: int) -> None:
        for _ in range(seconds):
            clock.advance(1.0)
            for number in range(DEVICES):
                uuid = f"GPU-{number}"
                samples[uuid] = DeviceSample(uuid, clock.now(), power_mw=draw.randrange(700_000))
            recorder.look()

    def seconds_told() -> float:
        found = HistoryQueries(recorder, clock).device("GPU-3", range_name="30m", series=["power_w"])
        return sum(point.coverage * found.step_s for point in found.series["power_w"])

    run(int(WRITE_INTERVAL_S) + 1)
    assert recorder.stopped is None
    with without_room():
        run(2 * int(WRITE_INTERVAL_S))
        assert recorder.stopped is not None
        assert str(path) in recorder.stopped
        assert seconds_told() == pytest.approx(3 * WRITE_INTERVAL_S + 1)
    run(int(WRITE_INTERVAL_S))
    assert recorder.stopped is None
    assert seconds_told() == pytest.approx(4 * WRITE_INTERVAL_S + 1)
    recorder.close()
