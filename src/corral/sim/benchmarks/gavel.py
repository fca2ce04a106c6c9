"""Job completion time on a cluster of several device models, after Gavel (Narayanan et al., OSDI 2020).

One node holds all devices of a model, so that a job runs on one model at a time and needs no other locality.
"""

import csv
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.units import count_of
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Backfill, Policy, Prefer, policy_named
from corral.core.scheduling.queueing.order import FCFS, HOUR_S, ORDERS
from corral.sim.engine import Engine, Progress, SimulatedWork, Speed, inventory, untold
from corral.sim.reports.history import History

ROUND_S = 360.0
"""The length of a scheduling round in the published runs, in seconds."""


@dataclass(frozen=True, slots=True)
class Discipline:
    """A policy of this simulator. `speeds` says whether the policy knows how fast a job runs on each device model."""

    policy: Policy
    speeds: bool = False


DISCIPLINES: Mapping[str, Discipline] = {
    "fifo": Discipline(Policy(FCFS, Backfill.NONE, prefer=Prefer.FIRST, strict=True)),
    "las": Discipline(Policy(ORDERS["las"], Backfill.ANY, prefer=Prefer.FIRST, quantum_s=ROUND_S)),
    "las-het": Discipline(Policy(ORDERS["las"], Backfill.ANY, prefer=Prefer.FIRST, quantum_s=ROUND_S), speeds=True),
    "corral": Discipline(Policy(ORDERS["corral"], Backfill.ANY, prefer=Prefer.FIRST, quantum_s=HOUR_S), speeds=True),
}


COLUMNS = ("unit_exp_gap_after", "num_gpus", "total_steps")


@dataclass(frozen=True, slots=True)
class GavelJob:
    """One line of the trace: the time to the next arrival in mean gaps, GPUs, steps, and steps per second by model."""

    gap: float
    gpus: int
    steps: float
    throughput: Mapping[str, float]


def read_trace(path: Path) -> list[GavelJob]:
    """Return the jobs of a trace. Raises Refused, naming the line, if the trace cannot be read."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
            if missing:
                raise Refused(f"--jobs: {path} is not a Gavel trace: it has no column {missing[0]}", field="--jobs")
            return [_trace_job(row, number, path) for number, row in enumerate(rows, start=2)]
    except OSError as error:
        raise Refused(f"--jobs: {path} cannot be read: {error.strerror}", field="--jobs") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(f"--jobs: {path} is not a CSV file: {error}", field="--jobs") from error


def _trace_job(row: Mapping[str, str], number: int, path: Path) -> GavelJob:
    try:
        throughput = {key.removeprefix("thr_"): float(value) for key, value in row.items() if key.startswith("thr_")}
        gap, gpus, steps = (row[column] for column in COLUMNS)
        job = GavelJob(float(gap), int(gpus), float(steps), throughput)
        if job.gpus < 1:
            raise ValueError(f"num_gpus is {job.gpus}; it is 1 at least")
        if not all(0 <= value < math.inf for value in (job.gap, job.steps, *throughput.values())):
            raise ValueError("gaps, steps and speeds are finite numbers from 0")
        return job
    except ValueError as error:
        raise Refused(f"--jobs: line {number} of {path} is not a Gavel job: {error}", field="--jobs") from error
    except (TypeError, AttributeError) as error:
        raise Refused(f"--jobs: line {number} of {path} has not as many fields as line 1", field="--jobs") from error


def simulate(
    trace: Sequence[GavelJob],
    *,
    rate: float,
    cluster: Mapping[str, int],
    policy: str,
    measure: tuple[int, int],
    history: History | None = None,
    progress: Progress = untold,
) -> dict[str, Any]:
    """The mean completion time in hours of the jobs from `measure[0]` to `measure[1]`, both included, counted from 0.

    `rate` is in jobs per hour; `cluster` has the number of devices of each model, the preferred model first.
    """
    began = time.perf_counter()
    if policy not in DISCIPLINES:
        policy_named(policy, {name: one.policy for name, one in DISCIPLINES.items()})
    discipline = DISCIPLINES[policy]
    first, last = measure
    if not 0 <= first <= last < len(trace):
        raise Refused(f"--measure: {first}-{last} is beyond the trace, which has {len(trace)} jobs", field="--measure")
    if not 0 < rate < math.inf:
        raise Refused(f"--rate: {rate:g} is not a rate; write jobs per hour, such as 1.0", field="--rate")
    _check_cluster(trace, cluster)
    nodes = [_node(rank, model, count) for rank, (model, count) in enumerate(cluster.items())]
    works = _works(trace, rate, tuple(cluster), discipline.speeds)
    planner = Planner(policy=discipline.policy)
    planner.advance(inventory(nodes))
    if history is not None:
        history.name(nodes)
    measured = works[first : last + 1]
    engine = Engine(planner, tick_s=discipline.policy.quantum_s, history=history, progress=progress)
    engine.run(works, until_ended=[work.job.id for work in measured])
    hours = [((work.ended_at or 0.0) - work.job.submitted_at) / HOUR_S for work in measured]
    return {
        "policy": policy,
        "rate": rate,
        "cluster": dict(cluster),
        "measured": len(measured),
        "mean_jct_h": round(sum(hours) / len(hours), 3),
        "starts": sum(work.runs for work in works),
        "wall_s": round(time.perf_counter() - began, 3),
    }


def _check_cluster(trace: Sequence[GavelJob], cluster: Mapping[str, int]) -> None:
    """Raise Refused for a model without speeds in the trace, and if a job could never run."""
    for model in cluster:
        if model not in trace[0].throughput:
            hint = nearest(model, trace[0].throughput)
            raise Refused(f"--cluster: the trace tells no speed on {model!r}; {hint}", field="--cluster")
    for one in trace:
        if not any(count >= one.gpus and one.throughput[model] for model, count in cluster.items()):
            raise Refused(
                f"--cluster: a job of the trace needs {count_of(one.gpus, 'device')} of one model that it runs on",
                field="--cluster",
            )


def _node(rank: int, model: str, count: int) -> Node:
    devices = tuple(Device(f"{model}-{index}", index, model, None) for index in range(count))
    return Node(f"{rank}-{model}", devices, 0, 0)


def _works(trace: Sequence[GavelJob], rate: float, models: Sequence[str], durations_known: bool) -> list[SimulatedWork]:
    works, at = [], 0.0
    for number, one in enumerate(trace, start=1):
        best = max(one.throughput[model] for model in models)
        if durations_known:
            speeds = tuple((model, one.throughput[model] / best) for model in models)
        else:
            speeds = tuple((model, 0.0) for model in models if not one.throughput[model])
        spec = JobSpec(user="trace", request=Request(devices=one.gpus), speeds=speeds)
        works.append(SimulatedWork(Job(str(number), number, spec, at), one.steps, _speed_of(one.throughput)))
        at += one.gap * HOUR_S / rate
    return works


def _speed_of(throughput: Mapping[str, float]) -> Speed:
    def speed(placement: Placement) -> float:
        return throughput[placement.members[0].node.partition("-")[2]]

    return speed
