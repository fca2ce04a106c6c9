"""The history of devices: its share of a core, its size after a week, and how fast a week of eight devices is told.

`python -m bench.history` prints each figure beside its goal.
"""

import random
import sqlite3
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Protocol

from corral.clock import ManualClock
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View, ViewDraft
from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.asking import HistoryQueries
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.group_use import GroupUseRecorder
from corral.features.history.recording.group_use_table import GroupUseTable
from corral.features.history.recording.job_blocks import job_blocks_with
from corral.features.history.recording.levels import DAY_S, HOUR_S, kept_levels
from corral.features.history.recording.merging import blocks_with
from corral.features.history.recording.meter import Meter
from corral.features.history.recording.meter_table import MeterTable
from corral.features.history.recording.readings import JobPart, jobs_key
from corral.features.history.recording.recorder import HistoryRecorder
from corral.features.history.recording.series import DeviceReadings, readings_of

DEVICES = 8
MANY_DEVICES = 1000
RECORDED_S = 1200
DAYS = 7
NOW = 1_700_000_000 // DAY_S * DAY_S
ROUNDS = 5


class Sample(Protocol):
    """Makes up the sample of a device at a moment."""

    __name__: str

    def __call__(self, uuid: str, at: float) -> DeviceSample: ...


def main() -> None:
    for name, sample, most_mib in (("steady", steady, 3), ("random", at_random, 15)):
        with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
            share_of_a_core(Path(home), sample, DEVICES, 1.0, "0.5 %")
            short_jobs(Path(home) / "jobs.db", sample)
            a_week(Path(home) / "week.db", name, sample, most_mib)
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
        share_of_a_core(Path(home), at_random, MANY_DEVICES, 5.0, "15 %")


def steady(uuid: str, at: float) -> DeviceSample:
    """A GPU under an even load: its readings move by a little."""
    step = int(at)
    return DeviceSample(
        uuid, at, utilization_pct=97 + step % 3, memory_used_mib=61_000, memory_total_mib=81_920,
        memory_bandwidth_pct=40 + step % 2, temperature_c=64 + step // 60 % 3,
        power_mw=398_000 + step % 5 * 500, sm_clock_mhz=1410, mem_clock_mhz=1593, ecc_errors=0, xid=0, throttle=0,
    )  # fmt: skip


def at_random(uuid: str, at: float) -> DeviceSample:
    """A GPU of which no reading is as the one before."""
    return DeviceSample(
        uuid, at, utilization_pct=random.randint(0, 100), memory_used_mib=random.randint(0, 81_920),
        memory_total_mib=81_920, memory_bandwidth_pct=random.randint(0, 100), temperature_c=random.randint(30, 90),
        power_mw=random.randint(50_000, 700_000), sm_clock_mhz=random.randint(200, 1980),
        mem_clock_mhz=random.randint(400, 2619), ecc_errors=random.randint(0, 9), xid=random.randint(0, 119),
        throttle=random.choice((0, 4)),
    )  # fmt: skip


def share_of_a_core(home: Path, sample: Sample, devices: int, interval_s: float, goal: str) -> None:
    """Devices on nodes of eight, each with a job of its own; a job in ten ends each minute, and another one begins."""
    clock, samples, cluster = ManualClock(NOW + 1000), dict[str, DeviceSample](), Cluster(devices)
    file = HistoryFile(home / "history.db")
    recorder = HistoryRecorder(file, lambda: samples, clock, kept_levels(DAYS), interval_s, view=lambda: cluster.view)
    meter = Meter(MeterTable(file), lambda: cluster.view, lambda: samples, clock, interval_s)
    sums = GroupUseRecorder(GroupUseTable(file), lambda: cluster.view, lambda: samples, clock, interval_s)
    others_s = 0.0
    used_s, worst_s, rounds = 0.0, 0.0, round(RECORDED_S / interval_s)
    for number in range(rounds):
        clock.advance(interval_s)
        if number * interval_s % 60 == 0:
            cluster.change(clock.now() - interval_s)
        samples.update({uuid: sample(uuid, clock.now()) for uuid in cluster.uuids})
        began = time.process_time()
        # A server looks twice as often as it samples.
        recorder.look()
        recorder.look()
        took_s = time.process_time() - began
        used_s, worst_s = used_s + took_s, max(worst_s, took_s)
        began = time.process_time()
        for other in (meter, sums):
            other.look()
            other.look()
        others_s += time.process_time() - began
    figures_ms = figures_of_a_job(HistoryQueries(recorder, clock), cluster.view)
    recorder.close()
    print(f"{sample.__name__}: {devices} devices each {interval_s:g} s, with their jobs, users, projects and nodes: "
          f"{used_s / RECORDED_S:.2%} of a core, with accounting and key figures "
          f"{(used_s + others_s) / RECORDED_S:.2%} (goal {goal}), a write {worst_s * 1e3:.0f} ms at most, "
          f"{len(cluster.ended)} jobs ended, figures of a job in {figures_ms:.1f} ms, "
          f"{file.path.stat().st_size / 1e6:.1f} MB")  # fmt: skip


def figures_of_a_job(queries: HistoryQueries, view: View) -> float:
    """How long it takes to tell `gpu_monitoring`, in milliseconds."""
    allocation = next(iter(view.allocations.values()))
    times_ms = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        queries.monitoring(view.jobs[allocation.job_id], allocation, [MonitoredDevice("0", "A100", 81_920)])
        times_ms.append((time.perf_counter() - began) * 1e3)
    return sorted(times_ms)[ROUNDS // 2]


def short_jobs(path: Path, sample: Sample) -> None:
    """An hour of 8 devices each second, on which jobs of 69 s follow each other: 10,000 a day."""
    file, levels, jobs = HistoryFile(path), kept_levels(DAYS), 0
    by_key: dict[str, list[tuple[JobPart, DeviceReadings]]] = defaultdict(list)
    for second in range(HOUR_S):
        for device in range(DEVICES):
            number = second // 69 * DEVICES + device
            reading = DeviceReadings(NOW + second, 1.0, readings_of(sample("GPU-0", NOW + second)))
            by_key[jobs_key(number)].append((JobPart(number, 1, 0), reading))
            jobs = max(jobs, number + 1)
        if second % 60 == 59:
            file.write([block for key in by_key for block in job_blocks_with(file, levels, key, by_key[key])])
            by_key.clear()
    file.close()
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT step_s, count(*), sum(length(data)) FROM blocks GROUP BY step_s").fetchall()
    said = ", ".join(f"{step_s} s {size / jobs:.0f} bytes in {rows / jobs:.2f} rows" for step_s, rows, size in found)
    print(f"{sample.__name__}: a job of 69 s at the level of {said}")


class Cluster:
    """Nodes of eight devices, and whose they are."""

    def __init__(self, devices: int) -> None:
        self.uuids = [f"GPU-{number}" for number in range(devices)]
        nodes = {
            f"node-{first // 8}": Node(
                f"node-{first // 8}",
                tuple(Device(uuid, place, "A100", 81_920) for place, uuid in enumerate(self.uuids[first : first + 8])),
                *(64_000, 512_000),
            )
            for first in range(0, devices, 8)
        }
        self._draft = ViewDraft(View(nodes=nodes))
        self._free = list(self.uuids)
        self._running: list[str] = []
        self.ended: list[str] = []
        self.change(0.0)

    @property
    def view(self) -> View:
        return self._draft.view

    def change(self, at: float) -> None:
        """End the oldest tenth of the jobs, and give each free device to a new one."""
        for allocation_id in self._running[: -(-len(self._running) // 10)]:
            self._free += self.view.allocations[allocation_id].placement.uuids
            self._draft.free(allocation_id, at)
            self._running.remove(allocation_id)
            self.ended.append(allocation_id)
        for uuid in self._free:
            number = len(self.ended) + len(self._running)
            spec = JobSpec(f"user{number % 20}", project=f"project{number % 5}")
            self._draft.set_job(Job(str(number), number, spec, at, Phase.RUNNING))
            placement = Placement((Member("", (Grant(uuid, 1000),)),))
            self._draft.allocate(Allocation(f"{number}.1", str(number), spec.user, placement, at))
            self._running.append(f"{number}.1")
        self._free = []


def a_week(path: Path, name: str, sample: Sample, most_mib: int) -> None:
    """A week of one device, the last day written each minute as a server does, and then that of eight."""
    file, levels = HistoryFile(path), kept_levels(DAYS)
    at, kept = NOW - DAYS * DAY_S, [level.step_s for level in levels]
    while at < NOW:
        until = at + (HOUR_S if at < NOW - DAY_S else 60)
        readings = [DeviceReadings(at, 1.0, readings_of(sample("GPU-0", at))) for at in range(at, until)]
        file.write(blocks_with(file, levels, "GPU-0", readings))
        if until % 600 == 0:
            file.forget([(level.step_s, until - level.kept_s - level.block_s) for level in levels], kept)
        at = until
    file.close()
    print(f"{name}: {DAYS} days of a device are {path.stat().st_size / 1e6:.2f} MB (goal {most_mib} MB)")
    with closing(sqlite3.connect(path)) as connection, connection:
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
