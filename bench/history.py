"""The history of devices: its share of a core, its size after a week, and how fast a week of eight devices is told.

`python -m bench.history` prints each figure beside its goal.
"""

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from corral.clock import ManualClock
from corral.history.asking import HistoryQueries
from corral.history.file import HistoryFile
from corral.history.levels import DAY_S, HOUR_S, kept_levels
from corral.history.merging import blocks_with
from corral.history.recorder import HistoryRecorder
from corral.history.series import DeviceReadings, readings_of
from corral.model.device import DeviceSample

DEVICES = 8
RECORDED_S = 1200
DAYS = 7
NOW = 1_700_000_000 // DAY_S * DAY_S
ROUNDS = 5

Sample = Callable[[str, float], DeviceSample]


def main() -> None:
    for name, sample, most_mib in (("steady", steady, 3), ("random", at_random, 15)):
        with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
            share_of_a_core(Path(home), name, sample)
            a_week(Path(home) / "week.db", name, sample, most_mib)


def steady(uuid: str, at: float) -> DeviceSample:
    """A GPU under an even load: its readings move by a little."""
    step = int(at)
    return DeviceSample(
        uuid, at, utilization_pct=97 + step % 3, memory_used_mib=61_000, memory_bandwidth_pct=40 + step % 2,
        temperature_c=64 + step // 60 % 3, power_mw=398_000 + step % 5 * 500, sm_clock_mhz=1410, mem_clock_mhz=1593,
        ecc_errors=0, xid=0, throttle=0,
    )  # fmt: skip


def at_random(uuid: str, at: float) -> DeviceSample:
    """A GPU of which no reading is as the one before."""
    return DeviceSample(
        uuid, at, utilization_pct=random.randint(0, 100), memory_used_mib=random.randint(0, 81_920),
        memory_bandwidth_pct=random.randint(0, 100), temperature_c=random.randint(30, 90),
        power_mw=random.randint(50_000, 700_000), sm_clock_mhz=random.randint(200, 1980),
        mem_clock_mhz=random.randint(400, 2619), ecc_errors=random.randint(0, 9), xid=random.randint(0, 119),
        throttle=random.choice((0, 4)),
    )  # fmt: skip


def share_of_a_core(home: Path, name: str, sample: Sample) -> None:
    clock, samples = ManualClock(NOW + 1000), dict[str, DeviceSample]()
    recorder = HistoryRecorder(HistoryFile(home / "history.db"), lambda: samples, clock, kept_levels(DAYS), 1.0)
    used_s, worst_s = 0.0, 0.0
    for _ in range(RECORDED_S):
        clock.advance(1.0)
        samples.update({f"GPU-{number}": sample(f"GPU-{number}", clock.now()) for number in range(DEVICES)})
        began = time.process_time()
        # A server looks twice as often as it samples.
        recorder.look()
        recorder.look()
        took_s = time.process_time() - began
        used_s, worst_s = used_s + took_s, max(worst_s, took_s)
    recorder.close()
    print(f"{name}: {DEVICES} devices a second: {used_s / RECORDED_S:.2%} of a core (goal 0.5 %), "
          f"a write {worst_s * 1e3:.0f} ms at most")  # fmt: skip


def a_week(path: Path, name: str, sample: Sample, most_mib: int) -> None:
    """A week of one device, written an hour at a time, and then that of eight."""
    file, levels = HistoryFile(path), kept_levels(DAYS)
    for first in range(NOW - DAYS * DAY_S, NOW, HOUR_S):
        readings = [DeviceReadings(at, 1.0, readings_of(sample("GPU-0", at))) for at in range(first, first + HOUR_S)]
        file.write(blocks_with(file, levels, "GPU-0", readings))
    file.forget(
        [(level.step_s, NOW - level.kept_s - level.block_s) for level in levels], [level.step_s for level in levels]
    )
    file.close()
    with sqlite3.connect(path) as connection:
        connection.execute("VACUUM")
    print(f"{name}: {DAYS} days of a device are {path.stat().st_size / 1e6:.2f} MB (goal {most_mib} MB)")
    with sqlite3.connect(path) as connection:
        for number in range(1, DEVICES):
            connection.execute(f"INSERT INTO blocks SELECT 'GPU-{number}', step_s, start, data FROM blocks "
                               "WHERE device = 'GPU-0'")  # fmt: skip
    ask(path, name)


def ask(path: Path, name: str) -> None:
    clock = ManualClock(float(NOW))
    recorder = HistoryRecorder(HistoryFile(path), dict, clock, kept_levels(DAYS), 1.0)
    queries = HistoryQueries(recorder, clock)
    for range_name, series in (("7d", ["power_w"]), ("24h", []), ("1h", [])):
        times_ms = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            for number in range(DEVICES):
                found = queries.device(f"GPU-{number}", range_name=range_name, series=series)
            times_ms.append((time.perf_counter() - began) * 1e3)
        points = sum(len(points) for points in found.series.values())
        goal = " (goal 50 ms)" if range_name == "7d" else ""
        print(f"{name}: {range_name} of {len(found.series)} series of {DEVICES} devices, {points} points each: "
              f"{sorted(times_ms)[ROUNDS // 2]:.0f} ms{goal}")  # fmt: skip
    recorder.close()


if __name__ == "__main__":
    main()
