"""Kueue's scheduling benchmark on Corral's real ledger, controller and dispatcher, in real time.

The generator files define when workloads are created (kubernetes-sigs/kueue, test/performance/scheduler). Kueue's unit
is a number that counts to a quota. Here twenty units, the request of the largest workloads, are one GPU. A large
workload takes a whole device, a medium one a quarter, a small one a twentieth, and all have to be placed. No process
runs: a simulated launch ends when its time is over.
"""

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from corral.clock import SystemClock
from corral.core.control.submitting import new_jobs
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.errors import Refused
from corral.core.model.fact import (
    ConditionObserved,
    Delta,
    JobChanged,
    NodeObserved,
    Observation,
    ServerPart,
    SiteArranged,
)
from corral.core.model.home import Home
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.queues.queue import Queue, Quota
from corral.core.model.runs.launch import Launch
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.engine import Progress, untold
from corral.sim.faults.live_server import LiveServer
from corral.sim.replays.journal import read_journal
from corral.sim.replays.past import record
from corral.sim.reports.history import History

SPARED_S = 10.0
"""No workload is evicted: all are shorter than this, and their work would be lost."""

TICK_S = 0.02
"""The interval at which the generator submits the workloads that are due, in seconds."""

_LOOK_S = 0.2
"""The interval at which the progress is checked, in seconds."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The workloads of one class in one queue: `count` of them, one every `interval_s`."""

    queue: str
    name: str
    count: int
    interval_s: float
    runtime_s: float
    priority: int
    units: int


@dataclass(frozen=True, slots=True)
class Generator:
    """The content of a generator file: queues with their quotas in units, by cohort, and their workloads."""

    queues: tuple[Queue, ...]
    streams: tuple[Stream, ...]
    units: int
    units_per_gpu: int


def read_generator(path: Path) -> Generator:
    """Read a generator from a YAML file. Raises Refused if the file is not a generator."""
    import yaml

    try:
        return _generator(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise Refused(f"--config: {path} cannot be read: {error.strerror}", field="--config") from error
    except KeyError as error:
        raise Refused(
            f"--config: {path} is not a generator file of Kueue: {error} is missing", field="--config"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(f"--config: {path} is not a generator file of Kueue: it is not YAML", field="--config") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise Refused(
            f"--config: {path} is not a generator file of Kueue; such a file has cohorts of queuesSets",
            field="--config",
        ) from error


def _generator(data: Mapping[str, Any]) -> Generator:
    _refuse_unsound(data)
    largest = max(one["request"] for one in _workloads(data))
    urgency = sorted({one["priority"] for one in _workloads(data)}, reverse=True)
    queues: list[Queue] = []
    streams: list[Stream] = []
    units = 0
    for cohort in data["cohorts"]:
        for number in range(cohort["count"]):
            parent = f"{cohort['className']}-{number}"
            queues.append(Queue(parent))
            for group in cohort["queuesSets"]:
                for place in range(group["count"]):
                    name = f"{parent}-{group['className']}-{place}"
                    share = MILLI_PER_DEVICE * group["nominalQuota"] // largest
                    borrow = MILLI_PER_DEVICE * group.get("borrowingLimit", 0) // largest
                    quota = Quota(share_milli=share, borrow_milli=borrow)
                    queues.append(Queue(name, parent=parent, quota=quota, spared_s=SPARED_S))
                    streams += _streams(name, group["workloadsSets"], urgency)
                    units += group["nominalQuota"]
    return Generator(tuple(queues), tuple(streams), units, largest)


def _refuse_unsound(data: Mapping[str, Any]) -> None:
    """Raise Refused for invalid amounts, for a workload that could never start, and if there are no workloads."""
    workloads = 0
    for cohort in data["cohorts"]:
        copies = _whole(cohort, "count", cohort["className"])
        groups = [(group, f"{cohort['className']}, {group['className']}") for group in cohort["queuesSets"]]
        lending_pools = sum(_whole(group, "count", who) * _whole(group, "nominalQuota", who) for group, who in groups)
        for group, who in groups:
            most = min(
                lending_pools, group["nominalQuota"] + _whole({"borrowingLimit": 0, **group}, "borrowingLimit", who)
            )
            for some in group["workloadsSets"]:
                each = _whole(some, "count", who)
                workloads += copies * group["count"] * each * len(some["workloads"])
                _whole(some, "creationIntervalMs", who)
                for one in some["workloads"]:
                    _refuse_unsound_workload(one, f"{who}, {one['className']}", most)
    if not workloads:
        raise Refused("--config: it asks for no workload at all; raise a count", field="--config")


def _refuse_unsound_workload(one: Mapping[str, Any], who: str, most: int) -> None:
    _whole(one, "runtimeMs", who)
    if _whole(one, "request", who, least=1) > most:
        raise Refused(
            f"--config: {who}: a request of {one['request']} would wait for ever, for its queue can have at most "
            f"{most}: its nominalQuota and borrowingLimit, of all that its cohort has; ask for no more",
            field="--config",
        )


def _whole(group: Mapping[str, Any], key: str, who: str, least: int = 0) -> int:
    value = group[key]
    if type(value) is not int or value < least:
        raise Refused(f"--config: {who}: {key} {value!r} is not a whole number of at least {least}", field="--config")
    return value


def _workloads(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        one
        for cohort in data["cohorts"]
        for group in cohort["queuesSets"]
        for some in group["workloadsSets"]
        for one in some["workloads"]
    ]


def _streams(queue: str, sets: Sequence[Mapping[str, Any]], urgency: Sequence[int]) -> list[Stream]:
    return [
        Stream(
            queue,
            one["className"],
            some["count"],
            some["creationIntervalMs"] / 1000,
            one["runtimeMs"] / 1000,
            1 + urgency.index(one["priority"]),
            one["request"],
        )
        for some in sets
        for one in some["workloads"]
    ]


class TimedRuntime(SimulatedRuntime):
    """A simulated runtime that ends each launch when the time of its job is over."""

    def __init__(self, clock: SystemClock, runtimes: Mapping[str, float]) -> None:
        super().__init__(clock)
        self._runtimes = runtimes
        self._due: list[tuple[float, str]] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="simulated-work", daemon=True)
        self._thread.start()

    def launch(self, launch: Launch) -> None:
        """Start the work at once. It ends after the run time of its job."""
        super().launch(launch)
        with self._changed:
            heappush(self._due, (time.monotonic() + self._runtimes[launch.job.id], launch.id))
            self._changed.notify()

    def close(self) -> None:
        """Stop the thread that ends launches."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closing:
                    return
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is None or wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                allocation_id = heappop(self._due)[1]
            self.finish(allocation_id)


@dataclass(slots=True)
class Admissions:
    """The time of the first start of each workload, and the number of ended workloads, by the deltas of the ledger."""

    started: dict[str, float] = field(default_factory=dict)
    ended: int = 0
    everything: threading.Event = field(default_factory=threading.Event)
    expected: int = 0

    def follow(self, _view: View, deltas: Sequence[Delta]) -> None:
        """Record the starts and ends among the deltas. A listener for `Ledger.subscribe`."""
        for delta in deltas:
            if isinstance(delta, JobChanged):
                phase = delta.changes.get("phase")
                if phase is Phase.STARTING:
                    self.started.setdefault(delta.job_id, delta.at)
                elif phase is Phase.SUCCEEDED:
                    self.ended += 1
        if self.ended >= self.expected:
            self.everything.set()


def simulate(
    generator: Generator, *, patience_s: float = 600.0, history: History | None = None, progress: Progress = untold
) -> dict[str, Any]:
    """Run the generator to the end of its last workload. Times of first admission are in seconds after submission.

    `history` receives the course, with the waits of each class of workloads.
    """
    with tempfile.TemporaryDirectory(prefix="corral-kueue-") as directory:
        report = _run(generator, Path(directory), patience_s, progress)
        if history is not None:
            record(read_journal(Home(Path(directory)).ledger_url), history, group=lambda job: job.spec.command[0])
        return report


def _run(generator: Generator, home: Path, patience_s: float, progress: Progress) -> dict[str, Any]:
    clock = SystemClock()
    arrivals = _arrivals(generator)
    admissions = Admissions(expected=len(arrivals))
    jobs: dict[str, tuple[Job, Stream]] = {}
    runtimes: dict[str, float] = {}
    observations = _site(generator)
    names = [one.node.name for one in observations if isinstance(one, NodeObserved)]
    nodes = {name: SimulatedNode(TimedRuntime(clock, runtimes), clock) for name in names}
    server = LiveServer(Home(home), nodes, observations)
    server.ledger.subscribe(admissions.follow)
    began = time.monotonic()
    try:
        _generate(server.ledger, clock, arrivals, jobs, runtimes)
        while not admissions.everything.wait(_LOOK_S) and time.monotonic() - began < patience_s:
            progress(admissions.ended, admissions.expected)
        wall_s = time.monotonic() - began
    finally:
        server.close()
        for node in nodes.values():
            node.runtime.close()
    return _report(jobs, admissions, wall_s)


def _arrivals(generator: Generator) -> list[tuple[float, int, Stream]]:
    """(seconds after the start, number, stream) of every workload, in order."""
    found = [
        ((number + 1) * stream.interval_s, index, stream)
        for index, stream in enumerate(generator.streams)
        for number in range(stream.count)
    ]
    return sorted(found, key=lambda one: one[:2])


def _site(generator: Generator) -> list[Observation]:
    """Return a site with as many devices as all quotas together, one node for each cohort."""
    gpus = generator.units // generator.units_per_gpu
    cohorts = [queue.name for queue in generator.queues if queue.parent is None]
    observations: list[Observation] = [SiteArranged(queues=generator.queues)]
    for number, name in enumerate(cohorts):
        count = gpus // len(cohorts) + (number < gpus % len(cohorts))
        devices = tuple(Device(f"{name}-{index}", index, "GPU", 81_920) for index in range(count))
        observations.append(NodeObserved(Node(name, devices, 0, 0)))
        observations += [
            ConditionObserved(DeviceCondition(device.uuid, memory_free_mib=81_920, utilization_pct=0))
            for device in devices
        ]
    return observations


def _generate(
    ledger: Ledger,
    clock: SystemClock,
    arrivals: Sequence[tuple[float, int, Stream]],
    jobs: dict[str, tuple[Job, Stream]],
    runtimes: dict[str, float],
) -> None:
    """Submit every workload when it is due; workloads of one time together."""
    began, next_one = time.monotonic(), 0
    units_per_gpu = max(stream.units for _, _, stream in arrivals)
    while next_one < len(arrivals):
        due = next_one
        while due < len(arrivals) and arrivals[due][0] <= time.monotonic() - began:
            due += 1
        if due > next_one:
            now = clock.now()
            ids = ledger.next_ids(due - next_one)
            batch = []
            for job_id, (_, _, stream) in zip(ids, arrivals[next_one:due], strict=True):
                job = Job(job_id, int(job_id), _spec(stream, units_per_gpu), now)
                jobs[job_id] = (job, stream)
                runtimes[job_id] = stream.runtime_s
                batch.append(job)
            ledger.commit(partial(new_jobs.admit, jobs=batch, find=_nobody, by=ServerPart.SIMULATOR, at=now)).result()
            next_one = due
        time.sleep(TICK_S)


def _nobody(_job_id: str) -> tuple[Job, ...]:
    """Return (): no workload depends on another."""
    return ()


def _spec(stream: Stream, units_per_gpu: int) -> JobSpec:
    request = Request(devices=1, share_milli=MILLI_PER_DEVICE * stream.units // units_per_gpu)
    return JobSpec(user="kueue", command=(stream.name,), queue=stream.queue, priority=stream.priority, request=request)


def _report(jobs: Mapping[str, tuple[Job, Stream]], admissions: Admissions, wall_s: float) -> dict[str, Any]:
    waits: dict[str, list[float]] = {}
    for job_id, (job, stream) in jobs.items():
        if job_id in admissions.started:
            waits.setdefault(stream.name, []).append(admissions.started[job_id] - job.submitted_at)
    return {
        "wall_s": round(wall_s, 2),
        "workloads": len(jobs),
        "admitted": len(admissions.started),
        "ended": admissions.ended,
        "admitted_by_class": dict(sorted(Counter(jobs[job_id][1].name for job_id in admissions.started).items())),
        "time_to_admission_s": {name: round(sum(some) / len(some), 3) for name, some in sorted(waits.items())},
    }
