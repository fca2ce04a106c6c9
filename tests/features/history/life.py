"""A small cluster whose jobs come and go, its recorder, and everything that was ever measured, kept plainly."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corral.clock import ManualClock
from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample, Node
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.levels import kept_levels
from corral.features.history.recording.readings import TOGETHER
from corral.features.history.recording.recorder import HistoryRecorder
from corral.features.history.recording.series import SERIES, covered_s

T0 = 1_700_000_000.0
DEVICES = ("a", "b", "c")

Reading = tuple[float, float, float]
"""When, what, and how long it stands for."""


@dataclass
class Life:
    """Each second each device is sampled. `jobs` has, of each part of each job, the readings of each series."""

    path: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(T0))
    held: dict[int, Allocation] = field(default_factory=dict)
    samples: dict[str, DeviceSample] = field(default_factory=dict)
    jobs: dict[tuple[int, int, str], list[Reading]] = field(
        default_factory=lambda: defaultdict(list[tuple[float, float, float]])
    )
    users: dict[tuple[str, str], list[Reading]] = field(
        default_factory=lambda: defaultdict(list[tuple[float, float, float]])
    )
    days: int = 7
    latest: float = T0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin with another recorder on the same file."""
        self.recorder = HistoryRecorder(
            HistoryFile(self.path), lambda: self.samples, self.clock, kept_levels(self.days), 1.0, view=self.view
        )
        self.last_at: dict[str, float] = {}

    def view(self) -> View:
        node = Node("n", tuple(Device(uuid, at, "A100", 81_920) for at, uuid in enumerate(DEVICES)), 8000, 1000)
        view = View(nodes={"n": node})
        allocations = {one.id: one for one in self.held.values()}
        holders = {uuid: tuple(one.id for one in self.held.values() if uuid in one.placement.uuids) for uuid in DEVICES}
        jobs = {
            str(number): Job(str(number), number, JobSpec(user_of(number), project="p"), T0, Phase.RUNNING)
            for number in self.held
        }
        return View(nodes=view.nodes, allocations=allocations, holders=holders, jobs=jobs)

    def start(self, number: int, *uuids: str, share_milli: int = 1000) -> None:
        placement = Placement((Member("n", tuple(Grant(uuid, share_milli) for uuid in uuids)),))
        self.held[number] = Allocation(f"{number}.1", str(number), user_of(number), placement, self.clock.now())

    def second(
        self, utilization_pct: int, power_w: int | None, *, seconds: float = 1.0, failing: Sequence[str] = ()
    ) -> None:
        """Let time pass and sample every device. A shared device has a process of each of its jobs."""
        self.clock.advance(seconds)
        now = self.clock.now()
        self.latest = max(self.latest, now)
        for at, uuid in enumerate(DEVICES):
            self.samples[uuid] = DeviceSample(
                uuid,
                now,
                utilization_pct=min(100, utilization_pct + at),
                power_mw=None if power_w is None else 1000 * (power_w + at),
                processes=tuple(
                    DeviceProcess(number, 100 * number, "u", job_id=str(number), utilization_pct=number % 50)
                    for number, one in self.held.items()
                    if uuid in one.placement.uuids
                ),
            )
        for uuid in failing:
            self.samples[uuid] = DeviceSample(uuid, now, fault="lost")
        covered = {uuid: covered_s(now, self.last_at.get(uuid), 1.0) for uuid in DEVICES}
        if self.last_at.get("a") != now and not failing:
            self._measure(now, covered)
            self.last_at = dict.fromkeys(DEVICES, now)
        self.recorder.look()

    def _measure(self, now: float, covered: dict[str, float]) -> None:
        of_users: dict[str, list[tuple[dict[str, float], float]]] = defaultdict(list)
        for number, one in self.held.items():
            if now < one.created_at:
                continue
            found = []
            for part, uuid in enumerate(one.placement.uuids):
                covers = min(covered[uuid], now - one.created_at)
                values = self.own(number, uuid)
                found.append((values, covers))
                for name, value in values.items():
                    self.jobs[number, part, name].append((now, value, covers))
            if len(found) > 1 and all("power_w" in values for values, _ in found):
                power_w = sum(values["power_w"] for values, _ in found)
                self.jobs[number, TOGETHER, "power_w"].append((now, power_w, found[0][1]))
            of_users[user_of(number)] += found
        for user, found in of_users.items():
            for values, covers in found:
                used = values["utilization_pct"]
                self.users[user, "utilization_pct"].append((now, used, covers / len(found)))
            if all("power_w" in values for values, _ in found):
                power_w = sum(values["power_w"] for values, _ in found)
                self.users[user, "power_w"].append((now, power_w, found[0][1]))

    def own(self, number: int, uuid: str) -> dict[str, float]:
        """What is a job's own of the newest sample of a device."""
        sample = self.samples[uuid]
        assert sample.utilization_pct is not None
        if sum(uuid in one.placement.uuids for one in self.held.values()) > 1:
            return {"utilization_pct": number % 50, "memory_used_mib": 100 * number}
        power = {} if sample.power_mw is None else {"power_w": sample.power_mw / 1000}
        return {"utilization_pct": sample.utilization_pct, **power}


def user_of(number: int) -> str:
    return f"user{number % 2}"


def by_step(readings: list[Reading], step_s: int) -> dict[int, list[tuple[float, float]]]:
    """Of each step of a level the values and what they cover."""
    found = defaultdict(list)
    for at, value, covers in readings:
        found[math.floor(at) // step_s * step_s].append((value, covers))
    return found


def series_number(name: str) -> int:
    return SERIES.index(name)
