"""Held and unused while others wait: first a warning, then the end."""

from dataclasses import replace

from corral.core.model.devices.device import DeviceSample
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.view import View
from corral.core.scheduling.evicting.idle_reclaim import Idle, IdlePolicy, IdleVerdict, judge_idle
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import H100, T0, box, job, observed, started, submitted

POLICY = IdlePolicy(after_s=600, grace_s=60)


def holding(*jobs: Job) -> View:
    view = View().advance(observed(box(gpus=2)) + submitted(*jobs))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    return view


def samples(*utilization: int | None) -> dict[str, DeviceSample]:
    return {f"GPU-box-{i}": DeviceSample(f"GPU-box-{i}", T0, utilization_pct=pct) for i, pct in enumerate(utilization)}


def story(view: View, *moments: tuple[float, dict[str, DeviceSample]]) -> list[tuple[float, IdleVerdict]]:
    """What is said at each of these moments (seconds after T0) with these samples."""
    said, state = [], dict[str, Idle]()
    for at, seen in moments:
        verdicts, state = judge_idle(view, seen, state, POLICY, T0 + at)
        said += [(at, verdict) for verdict in verdicts]
    return said


UNUSED = samples(0, 0)


def test_an_unused_allocation_is_warned_and_then_released_while_others_wait() -> None:
    view = holding(job(1, 2, kind=JobKind.RESERVE)).advance(submitted(job(2)))
    assert story(view, *((at, UNUSED) for at in (0, 599, 600, 650, 660))) == [
        (
            600,
            IdleVerdict("1", "2 GPUs unused for 10m while job 2 waits: use them within 1m, or they are released", "2"),
        ),
        (660, IdleVerdict("1", "2 GPUs unused for 11m while job 2 waits: released", "2", release=True)),
    ]


def test_use_in_between_starts_the_count_afresh() -> None:
    view = holding(job(1, 2)).advance(submitted(job(2)))
    assert story(view, (0, UNUSED), (599, samples(0, 5)), (700, UNUSED), (1299, UNUSED)) == []
    assert [at for at, _ in story(view, (0, UNUSED), (600, UNUSED), (630, samples(3, 0)), (661, UNUSED))] == [600]


def test_where_nobody_waits_nobody_is_warned_and_a_warning_is_taken_back() -> None:
    alone = holding(job(1, 2))
    assert story(alone, (0, UNUSED), (10_000, UNUSED)) == []
    waiting = alone.advance(submitted(job(2)))
    state = {"1.1": Idle(T0, warned_at=T0 + 600)}
    assert judge_idle(alone, UNUSED, state, POLICY, T0 + 5000) == ([], {"1.1": Idle(T0)})
    assert [verdict.release for verdict in judge_idle(waiting, UNUSED, state, POLICY, T0 + 5000)[0]] == [True]


def test_those_who_wait_for_something_else_do_not_count() -> None:
    view = holding(job(1, 2)).advance(submitted(job(2, models=("H100",)), job(3, held=True), job(4, 0)))
    view = view.advance(observed(box("h", 0, model=H100)))
    assert story(view, (0, UNUSED), (700, UNUSED)) == []


def test_a_device_that_cannot_be_read_is_taken_to_be_in_use() -> None:
    view = holding(job(1, 2)).advance(submitted(job(2)))
    assert story(view, (0, samples(0, None)), (700, samples(0, None))) == []
    assert story(view, (0, samples(0)), (700, samples(0))) == []


def test_an_adopted_process_is_never_released() -> None:
    view = holding(job(1, 2))
    adopted = replace(view.jobs["1"], spec=replace(view.jobs["1"].spec, kind=JobKind.ADOPT))
    view = replace(view, jobs={"1": adopted}).advance(submitted(job(2)))
    assert story(view, (0, UNUSED), (700, UNUSED), (800, UNUSED)) == []
