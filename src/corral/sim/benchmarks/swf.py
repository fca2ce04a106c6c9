"""Queue order and backfill on traces in the Standard Workload Format (Chapin et al., JSSPP 1999).

The cluster is one host with a number of processors, jobs ask for processors, and estimates are the exact run times.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.plan import Plan
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Backfill, Policy, Prefer, backfill_named, backfill_order_named, policy_named
from corral.core.scheduling.queueing.order import SHORTEST_S, Order, OrderContext, Rank
from corral.sim.benchmarks.trace_files import text_of
from corral.sim.engine import Engine, Progress, SimulatedWork, inventory, untold
from corral.sim.reports.history import History

PUNCTUAL_S = 1e-3
"""Starts this close to the forecast count as exact, to allow for rounding."""

SUBMIT, RUN, USED, ASKED = 1, 3, 4, 7
"""Columns of the format, from 0: submit time, run time, processors used and asked for."""


@dataclass(frozen=True, slots=True)
class SwfJob:
    """One line of a trace; seconds and processors."""

    submitted_at: float
    run_s: float
    processors: int


def read_trace(path: Path) -> list[SwfJob]:
    """Return the jobs of a trace, gzipped or not. Raises Refused, naming the line, if the trace cannot be read."""
    jobs = []
    for number, line in enumerate(text_of("--trace", path, encoding="latin-1").splitlines(), start=1):
        if not line.strip() or line.startswith(";"):
            continue
        fields = line.split()
        try:
            processors = max(int(fields[USED]), int(fields[ASKED]))
            jobs.append(SwfJob(float(fields[SUBMIT]), float(fields[RUN]), processors))
        except (ValueError, IndexError) as error:
            raise Refused(f"--trace: line {number} of {path} is not SWF: {line[:60]!r}", field="--trace") from error
    return jobs


class CommittedHead:
    """An order that keeps a job at the head of the queue, from the first plan in which it does not fit until it
    starts.
    """

    def __init__(self, order: Order) -> None:
        self._rank = order.rank
        self._head: str | None = None
        self.order = Order(f"{order.name}, committed", self.rank)

    def rank(self, job: Job, context: OrderContext) -> Rank:
        """Rank the committed head before all other jobs."""
        return (0.0 if job.id == self._head else 1.0, *self._rank(job, context))

    def watch(self, _now: float, plan: Plan) -> None:
        """Take the first job that does not fit in this plan as the head."""
        self._head = plan.waits[0].job_id if plan.waits else None


def simulate(
    trace: Sequence[SwfJob],
    *,
    processors: int,
    windows: Sequence[int],
    jobs: int,
    order: str = "fcfs",
    backfill: str = "none",
    backfill_order: str = "queue",
    commit_head: bool = False,
    limit_factor: float = 1.0,
    seed: int = 42,
    history: History | None = None,
    progress: Progress = untold,
) -> dict[str, Any]:
    """Mean bounded slowdown, mean over windows of `jobs` jobs from each 0-based start on, each on an empty cluster.

    A job's time limit, by which it is scheduled, is its run time times a factor between 1 and `limit_factor`.
    `history` receives the course of the first window.
    """
    began = time.perf_counter()
    if not 1 <= limit_factor < math.inf:
        raise Refused(
            f"--limit-factor: {limit_factor:g} is not a factor; write a number of 1 or more", field="--limit-factor"
        )
    policy = replace(
        policy_named(order),
        backfill=backfill_named(backfill),
        backfill_order=backfill_order_named(backfill_order),
        strict=backfill == Backfill.NONE,
        quantum_s=None,
        prefer=Prefer.FIRST,
    )
    ran, promises = [], PromisedStarts()
    chance = random.Random(seed)
    for number, start in enumerate(windows):
        works = _window(trace, start, jobs, processors, lambda: chance.uniform(1.0, limit_factor))
        first = history if number == 0 else None
        further = _further(progress, number * jobs, len(windows) * jobs)
        _run_window(works, policy, processors, promises, commit_head=commit_head, history=first, progress=further)
        ran.append(works)
    return {
        "order": order,
        "backfill": backfill,
        "backfill_order": backfill_order,
        "commit_head": commit_head,
        "windows": list(windows),
        "jobs": jobs,
        **_waits(ran),
        "expected_start": promises.report(),
        "wall_s": round(time.perf_counter() - began, 3),
    }


def _run_window(
    works: Sequence[SimulatedWork],
    policy: Policy,
    processors: int,
    promises: "PromisedStarts",
    *,
    commit_head: bool,
    history: History | None,
    progress: Progress,
) -> None:
    """Run the jobs on an empty cluster, to their end."""
    head = CommittedHead(policy.order) if commit_head else None
    planner = Planner(policy=policy if head is None else replace(policy, order=head.order))
    planner.advance(inventory([Node("cluster", (), processors * 1000, 0)]))
    watches = [promises.watch] if head is None else [promises.watch, head.watch]
    Engine(planner, watches, history=history, progress=progress).run(works)
    promises.compare(works)


def _waits(ran: Sequence[Sequence[SimulatedWork]]) -> dict[str, Any]:
    """Return the waits of the jobs of all windows."""
    slowdowns = [sum(bounded_slowdown(work.wait_s, work.amount) for work in works) / len(works) for works in ran]
    waits = [work.wait_s for works in ran for work in works]
    return {
        "mean_bounded_slowdown": round(sum(slowdowns) / len(slowdowns), 2),
        "bounded_slowdowns": [round(value, 2) for value in slowdowns],
        "mean_wait_s": round(sum(waits) / len(waits), 1),
        "max_wait_s": max(waits),
    }


def bounded_slowdown(wait_s: float, run_s: float) -> float:
    """max(1, (wait + run) / max(run, 10 s)) (Feitelson et al., JSSPP 1997)."""
    return max(1.0, (wait_s + run_s) / max(run_s, SHORTEST_S))


class PromisedStarts:
    """Compares the start that jobs were promised on arrival with their real start."""

    def __init__(self) -> None:
        self._starts: dict[str, float] = {}
        self._late_s: list[float] = []

    def watch(self, _now: float, plan: Plan) -> None:
        """Record the promise of a job, if it is its first."""
        for promise in plan.future_starts:
            self._starts.setdefault(promise.job_id, promise.start_at)

    def compare(self, works: Sequence[SimulatedWork]) -> None:
        """Compare, once all jobs of a window have run."""
        for work in works:
            if work.job.id in self._starts and work.started_at is not None:
                self._late_s.append(work.started_at - self._starts[work.job.id])
        self._starts.clear()

    def report(self) -> dict[str, Any]:
        """Return how many jobs had a promise, started exactly then, or later; and the greatest delay in seconds."""
        late = [late_s for late_s in self._late_s if late_s > PUNCTUAL_S]
        punctual = sum(abs(late_s) <= PUNCTUAL_S for late_s in self._late_s)
        return {
            "told": len(self._late_s),
            "exact": punctual,
            "late": len(late),
            "max_late_s": round(max(late, default=0.0), 3),
        }


def _further(progress: Progress, before: int, total: int) -> Progress:
    """Return a progress function for a part of the work, after `before` jobs, that reports on the whole."""
    return lambda done, _: progress(before + done, total)


def _window(
    trace: Sequence[SwfJob], start: int, jobs: int, processors: int, factor: Callable[[], float]
) -> list[SimulatedWork]:
    """Return the work of a window. Raises Refused if it cannot be run."""
    if not 0 <= start <= len(trace) - jobs:
        raise Refused(
            f"--windows: {start} + {jobs} jobs is beyond the trace, which has {len(trace)}", field="--windows"
        )
    works = []
    for number, one in enumerate(trace[start : start + jobs], start=1):
        if not 1 <= one.processors <= processors:
            raise Refused(f"--procs: a job of the trace needs {one.processors} of {processors}", field="--procs")
        if one.run_s < 0:
            raise Refused(
                f"--windows: job {start + number - 1} of the trace ran {one.run_s:g} s, which is to say that nobody "
                "knows; take windows without it",
                field="--windows",
            )
        request = Request(devices=0, cpu_milli=one.processors * 1000)
        spec = JobSpec(user="trace", request=request, time_limit_s=one.run_s * factor())
        works.append(SimulatedWork(Job(str(number), number, spec, one.submitted_at), one.run_s))
    return works
