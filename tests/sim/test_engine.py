"""The discrete-event engine: time, failures, and work that is kept or lost."""

import pytest

from corral.core.model.errors import Refused
from corral.core.model.placing.plan import Plan
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES, Policy
from corral.core.scheduling.queueing.order import FCFS
from corral.sim.engine import Engine, SimulatedWork, inventory
from corral.sim.faults.faults import Breakdown, breakdowns
from corral.sim.reports.history import History
from tests.core.scheduling.lab import T0, box, job


def run(works: list[SimulatedWork], *, gpus: int = 1, policy: Policy | None = None, **options: object) -> Engine:
    planner = Planner(policy=policy or Policy(FCFS))
    planner.advance(inventory([box(gpus=gpus)]))
    engine = Engine(planner, **options)  # type: ignore[arg-type]
    engine.run(works)
    return engine


def work(number: int, seconds: float, at: float = 0.0, gpus: int = 1) -> SimulatedWork:
    return SimulatedWork(job(number, gpus, submitted_at=T0 + at), seconds)


def test_jobs_run_one_after_the_other_where_there_is_room_for_one() -> None:
    works = [work(1, 10), work(2, 5, at=1)]
    run(works)
    assert [(one.started_at, one.ended_at) for one in works] == [(T0, T0 + 10), (T0 + 10, T0 + 15)]
    assert [one.wait_s for one in works] == [0, 9]


def test_an_evicted_job_goes_on_from_where_it_was() -> None:
    works = [work(1, 2 * 3600), work(2, 60, at=10)]
    run(works, policy=POLICIES["las"], tick_s=3600.0)
    assert [one.runs for one in works] == [2, 1]
    assert works[0].ended_at == T0 + 2 * 3600 + 60
    assert works[0].wait_s == pytest.approx(60)


def test_a_failed_device_costs_its_job_what_it_has_done_and_is_used_again_when_repaired() -> None:
    works = [work(1, 10)]
    run(works, breakdowns=[Breakdown("GPU-box-0", T0 + 6, T0 + 20)])
    assert (works[0].runs, works[0].ended_at) == (2, T0 + 30)


def test_a_job_that_can_move_does_not_wait_for_the_repair() -> None:
    works = [work(1, 10)]
    run(works, gpus=2, breakdowns=[Breakdown("GPU-box-0", T0 + 6, T0 + 1000)])
    assert works[0].ended_at == T0 + 16


def test_failures_follow_their_seed() -> None:
    def some(seed: int) -> list[Breakdown]:
        return breakdowns([box(gpus=4)], start=T0, end=T0 + 10_000, mtbf_s=1_000, repair_s=10, seed=seed)

    assert some(1) == some(1) != some(2)
    assert 20 < len(some(1)) < 80, "four devices, ten mean times each"


def test_the_history_has_what_ran_and_what_waited() -> None:
    history = History()
    run([work(1, 10), work(2, 5, at=1)], history=history)
    assert list(zip(history.times, history.in_use, history.waiting, strict=True)) == [
        (T0, 1.0, 0),
        (T0 + 1, 1.0, 1),
        (T0 + 10, 1.0, 0),
        (T0 + 15, 0.0, 0),
    ]
    assert [(one.allocation.job_id, one.start, one.end) for one in history.runs] == [
        ("1", T0, T0 + 10),
        ("2", T0 + 10, T0 + 15),
    ]
    assert history.waits == {"alice": [0, 9]}


def test_every_plan_is_shown_to_those_who_watch() -> None:
    seen: list[tuple[float, int]] = []

    def watch(now: float, plan: Plan) -> None:
        seen.append((now, len(plan.starts)))

    run([work(1, 10), work(2, 5, at=1)], watches=[watch])
    assert seen == [(T0, 1), (T0 + 1, 0), (T0 + 10, 1)]


def test_what_can_never_start_ends_the_simulation_with_words() -> None:
    with pytest.raises(Refused, match="1 jobs wait for more than this cluster has"):
        run([work(1, 10, gpus=2)])
