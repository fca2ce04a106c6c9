"""The jobs of Microsoft's Philly clusters (Jeon et al., USENIX ATC'19), on a cluster small enough that they wait.

The trace has no time limits and no users: a job's run time is estimated from earlier jobs of its virtual cluster with
as many GPUs. GPUs are counted, not placed.
"""

import csv
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.plan import Plan
from corral.core.scheduling.forecast import ExpectedStart, expected_starts
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Backfill, Prefer, backfill_named, policy_named
from corral.core.scheduling.queueing.order import HOUR_S
from corral.sim.engine import Engine, Progress, SimulatedWork, inventory, untold
from corral.sim.reports.history import History


class PhillyJob(NamedTuple):
    """One line of the trace: seconds from the first submission, run time in seconds, GPUs, virtual cluster."""

    submitted_at: float
    run_s: float
    gpus: int
    cluster: str


def read_trace(path: Path) -> list[PhillyJob]:
    """Return the jobs in order of submission. Raises Refused, naming the line, if the file cannot be read."""
    jobs = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                try:
                    at = datetime.fromisoformat(row["timestamp"] + "+00:00").timestamp()
                    jobs.append(PhillyJob(at, float(row["duration"]), int(row["num_gpus"]), row["cluster"]))
                except (KeyError, ValueError, TypeError) as error:
                    raise Refused(f"--jobs: line {number} of {path} is not a Philly job: {error}") from error
    except OSError as error:
        raise Refused(f"--jobs: {path} cannot be read: {error.strerror}", field="--jobs") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(f"--jobs: {path} is not a CSV file: {error}", field="--jobs") from error
    jobs.sort()
    return [one._replace(submitted_at=one.submitted_at - jobs[0].submitted_at) for one in jobs]


class StartForecasts:
    """Asks for a forecast of the start of every n-th job when it arrives, and compares it with its real start."""

    def __init__(self, planner: Planner, works: Sequence[SimulatedWork], every: int) -> None:
        self._planner = planner
        self._works = works
        self._arrived = 0
        self._every = every
        self._expected: dict[str, ExpectedStart] = {}

    def watch(self, now: float, plan: Plan) -> None:
        """Request a forecast for each sampled job that has just arrived and does not start at once."""
        started = {start.job_id for start in plan.starts}
        while self._arrived < len(self._works) and self._works[self._arrived].job.submitted_at <= now:
            job_id = self._works[self._arrived].job.id
            self._arrived += 1
            if self._arrived % self._every == 0 and job_id not in started:
                expected = expected_starts(self._planner.view, now, [job_id], planner=self._planner.with_view)
                self._expected[job_id] = expected[job_id]

    def report(self) -> dict[str, Any]:
        """Return the number of forecasts requested and given, and their median and mean error in seconds.

        There is no forecast for a job that waits for jobs without an estimate, or that is too far back in the queue.
        """
        starts = {work.job.id: work.started_at or 0.0 for work in self._works}
        given = [(job_id, one.start_at) for job_id, one in self._expected.items() if one.start_at is not None]
        off = sorted(abs(starts[job_id] - at) for job_id, at in given)
        blind = sum(one.depends_on is not None for one in self._expected.values())
        return {
            "asked": len(self._expected),
            "told": len(off),
            "behind_jobs_without_history": blind,
            "too_far_back": len(self._expected) - len(off) - blind,
            "median_error_s": round(median(off), 1) if off else None,
            "mean_error_s": round(sum(off) / len(off), 1) if off else None,
        }


def simulate(
    trace: Sequence[PhillyJob],
    *,
    gpus: int,
    order: str = "corral",
    backfill: str = "easy",
    ask_every: int = 100,
    history: History | None = None,
    progress: Progress = untold,
) -> dict[str, Any]:
    """Return the mean completion time and wait of the jobs. Jobs that request more than `gpus` are left out."""
    began = time.perf_counter()
    policy = replace(
        policy_named(order),
        backfill=backfill_named(backfill),
        strict=backfill == Backfill.NONE,
        quantum_s=None,
        prefer=Prefer.FIRST,
    )
    works = [_work(number, one) for number, one in enumerate(trace, start=1) if one.gpus <= gpus]
    if not works:
        raise Refused(f"--gpus: no job of the trace fits on {gpus}", field="--gpus")
    planner = Planner(policy=policy)
    planner.advance(inventory([Node("philly", (), gpus * 1000, 0)]))
    forecasts = StartForecasts(planner, works, ask_every)
    Engine(planner, [forecasts.watch], history=history, progress=progress).run(works)
    waits = [work.wait_s for work in works]
    spans = [(work.ended_at or 0.0) - work.job.submitted_at for work in works]
    return {
        "order": order,
        "backfill": backfill,
        "gpus": gpus,
        "jobs": len(works),
        "mean_jct_h": round(sum(spans) / len(spans) / HOUR_S, 3),
        "mean_wait_s": round(sum(waits) / len(waits), 1),
        "max_wait_s": round(max(waits), 1),
        "expected_start": forecasts.report(),
        "wall_s": round(time.perf_counter() - began, 3),
    }


def _work(number: int, one: PhillyJob) -> SimulatedWork:
    spec = JobSpec(user=one.cluster, name=f"{one.gpus} GPUs", request=Request(devices=0, cpu_milli=one.gpus * 1000))
    return SimulatedWork(Job(str(number), number, spec, one.submitted_at), one.run_s)
