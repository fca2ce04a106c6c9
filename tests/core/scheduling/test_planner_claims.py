"""Claims about the scheduler as a whole, each checked against an independent and simpler way to look at it."""

import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.fact import AllocationEnded, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.queues.queue import Queue
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.order import AGE_LIMIT_S, FCFS, HOUR_S, ORDERS
from corral.sim.engine import Engine, SimulatedWork, inventory
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted

GPUS = 4


def free_at(view: View, at: float) -> int:
    """GPUs that are free at a time if every running job takes its limit."""
    held = 0
    for allocation in view.allocations.values():
        limit = view.jobs[allocation.job_id].spec.time_limit_s
        held += len(allocation.placement.uuids) if limit is None or allocation.created_at + limit > at else 0
    return GPUS - held


def earliest(view: View, gpus: int) -> float:
    """When so many GPUs are free at once, counting only."""
    ends = [
        allocation.created_at + (view.jobs[allocation.job_id].spec.time_limit_s or 0.0)
        for allocation in view.allocations.values()
    ]
    return min(at for at in [T0, *ends] if free_at(view, at) >= gpus)


SHAPES = st.lists(st.tuples(st.integers(1, GPUS), st.integers(1, 20)), min_size=1, max_size=10)


@settings(max_examples=150)
@given(SHAPES, SHAPES)
def test_no_job_that_fits_waits_unless_it_would_delay_the_first_in_line(
    running: list[tuple[int, int]], waiting: list[tuple[int, int]]
) -> None:
    view = View().advance(observed(box(gpus=GPUS)))
    for number, (gpus, limit) in enumerate(running, start=1):
        if free_at(view, T0) >= gpus:
            view = view.advance(submitted(job(number, gpus, time_limit_s=float(limit))))
            view = view.advance(started(Planner(view).plan(T0).starts[0]))
    jobs = [job(100 + n, gpus, time_limit_s=float(limit)) for n, (gpus, limit) in enumerate(waiting)]
    view = view.advance(submitted(*jobs))
    for start in Planner(view, policy=Policy(FCFS)).plan(T0).starts:
        view = view.advance(started(start))
    left = [one for one in jobs if one.id in view.jobs and view.jobs[one.id].allocation_id is None]
    if not left:
        return
    head = left[0].spec.request.devices
    assert head > free_at(view, T0), "the first in line does not fit"
    start_at = earliest(view, head)
    for one in left[1:]:
        gpus, limit_s = one.spec.request.devices, one.spec.time_limit_s or 0.0
        fits = gpus <= free_at(view, T0)
        delays = T0 + limit_s > start_at and free_at(view, start_at) - head < gpus
        assert not fits or delays


def test_under_corral_no_job_starves_behind_an_endless_stream() -> None:
    wide = SimulatedWork(Job("1", 1, job(1, GPUS, time_limit_s=HOUR_S).spec, T0 + 1), HOUR_S)
    narrow = [
        SimulatedWork(Job(str(n), n, job(n, 1, time_limit_s=6 * HOUR_S).spec, T0 + (n - 2) * HOUR_S), 6 * HOUR_S)
        for n in range(2, 2 + 24 * 12)
    ]
    planner = Planner(policy=Policy(ORDERS["corral"]))
    planner.advance(inventory([box(gpus=GPUS)]))
    Engine(planner).run([wide, *narrow], until_ended=["1"])
    assert wide.started_at is not None
    assert wide.started_at - wide.job.submitted_at <= AGE_LIMIT_S + 6 * HOUR_S


PLAN_ELSEWHERE = """
from tests.core.scheduling.test_planner_claims import mixed
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0
print(Planner(mixed()).plan(T0))
"""


def mixed() -> View:
    """A few nodes and many kinds of jobs, from several users."""
    jobs = [
        job(n, n % 5, user=f"u{n % 3}", priority=n % 4, share_milli=500 if n % 3 == 0 else 1000, gang_size=1 + n % 2)
        for n in range(1, 40)
    ]
    return View().advance(observed(box("a"), box("b", 4), box("c", 2)) + submitted(*jobs))


def test_the_same_view_gives_the_same_plan_in_every_process() -> None:
    plans = {
        subprocess.run(
            [sys.executable, "-c", PLAN_ELSEWHERE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert plans == {f"{Planner(mixed()).plan(T0)}\n"}


def test_what_is_learned_of_run_times_while_a_job_waits_changes_its_place_at_once() -> None:
    queue = Queue("default", policy="sjf")
    view = View(queues={"default": queue}).advance(observed(box(gpus=1)) + submitted(job(1, 1, name="a")))
    warm = Planner(view)
    warm.advance(started(warm.plan(T0).starts[0]))
    warm.advance(submitted(job(2, 1, name="b", time_limit_s=50), job(3, 1, name="a")))
    done: JobPatch = {"phase": Phase.SUCCEEDED, "allocation_id": None, "ended_at": T0 + 10}
    warm.advance([JobChanged("1", done, at=T0 + 10, by="test"), AllocationEnded("1.1", "1", at=T0 + 10, by="test")])
    plan = warm.plan(T0 + 10)
    assert plan == Planner(warm.view).plan(T0 + 10)
    assert [start.job_id for start in plan.starts] == ["3"]
