"""Who is stopped for whom is told to who makes room, to who gets it, and to who only asks."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.fact import JobChanged
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.core.model.placing.plan import Evict, WaitReason
from corral.core.model.queues.queue import Queue
from corral.core.model.view import View
from corral.core.scheduling.explaining.eviction_notices import eviction_notice, eviction_sentence, goes_on, room_to_make
from corral.core.scheduling.explaining.submission_forecast import forecast_submission
from corral.core.scheduling.explaining.why import ended_sentence, explain, wait_reason
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted, view_of

WORDS = "job 2 has priority 1 and goes before 9"
TOLD = Eviction(EvictionRule.PRIORITY, "2", WORDS, T0 + 10, "1.1")


def held_by_a_less_urgent_job(**options: Any) -> View:
    view = View(queues={"default": Queue("default", preempts=True)})
    view = view.advance(observed(box(gpus=1)) + submitted(job(1, priority=9, time_limit_s=1000.0, **options)))
    return view.advance(started(Planner(view).plan(T0).starts[0]))


def giving_way(**options: Any) -> View:
    """Job 1 is being stopped for job 2."""
    view = held_by_a_less_urgent_job(**options).advance(submitted(job(2, priority=1, time_limit_s=60.0)))
    eviction = replace(TOLD, saves=bool(options))
    changes: JobPatch = {"phase": Phase.STOPPING, "stop_reason": Phase.PENDING, "eviction": eviction, "reason": WORDS}
    return view.advance([JobChanged("1", changes, at=T0 + 10, by="test")])


def test_who_gets_the_room_is_told_for_whose_end_it_waits() -> None:
    view = giving_way()
    told = explain(view, view.jobs["2"], None, T0 + 13)
    assert told.sentence == "job 2 waits: it starts when job 1 has been stopped for it (asked 3s ago)."
    assert told.makes_room == ("1",)


def test_it_is_told_how_long_who_makes_room_may_take_to_save_its_work() -> None:
    view = giving_way(checkpoint_signal="USR1", checkpoint_grace_s=60.0)
    assert explain(view, view.jobs["2"], None, T0 + 13).sentence == (
        "job 2 waits: it starts when job 1 has been stopped for it (asked 3s ago, with 1m to save its work). "
        "It is expected to start in 57s."
    )


def test_who_makes_room_is_told_for_whom_and_by_which_rule() -> None:
    view = giving_way()
    assert ended_sentence(view.jobs["1"], T0 + 13) == (
        f"job 1 is being stopped, and goes back to its queue. It was preempted for job 2 3s ago: {WORDS}."
    )


def test_who_makes_room_and_cannot_run_again_is_told_so() -> None:
    told = ended_sentence(giving_way(terminal=TerminalSize()).jobs["1"], T0 + 13)
    assert told.startswith(
        "job 1 is being stopped; it does not run again, because its session is over. It was preempted"
    )


def test_afterwards_it_is_told_what_was_lost() -> None:
    view = giving_way()
    over: JobPatch = {
        "phase": Phase.PENDING,
        "allocation_id": None,
        "stop_reason": None,
        "evictions": 2,
        "lost_s": 90.0,
    }
    view = view.advance(
        [JobChanged("1", {**over, "eviction": replace(TOLD, ran_s=12.0, lost_s=12.0)}, at=T0 + 14, by="test")]
    )
    told = explain(view, view.jobs["1"], None, T0 + 20).sentence
    assert (
        f"It was preempted for job 2 10s ago: {WORDS}; the 12s that it had run are lost. "
        "It has made room 2 times, and lost 1m 30s in all."
    ) in told


def test_a_job_that_runs_again_still_tells_that_it_made_room() -> None:
    view = held_by_a_less_urgent_job()
    again = replace(view.jobs["1"], launches=2, evictions=1, eviction=replace(TOLD, ran_s=12.0, lost_s=12.0))
    assert ended_sentence(again, T0 + 20) == (
        "job 1 has been running for 20s. "
        f"It was preempted for job 2 10s ago: {WORDS}; the 12s that it had run are lost."
    )


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        (EvictionRule.PRIORITY, WaitReason.PREEMPTED),
        (EvictionRule.TIME_SLICE, WaitReason.PREEMPTED),
        (EvictionRule.QUEUE_RECLAIM, WaitReason.RECLAIMED),
        (EvictionRule.POOL_RECLAIM, WaitReason.RECLAIMED),
    ],
)
def test_one_word_says_how_it_came_to_wait_until_it_starts_again(rule: EvictionRule, word: WaitReason) -> None:
    waits = job(1, eviction=replace(TOLD, rule=rule, allocation_id="1.3"), launches=3)
    assert wait_reason(waits, None, T0) is word
    assert wait_reason(replace(waits, held=True), None, T0) is WaitReason.HELD
    assert wait_reason(replace(waits, launches=4), None, T0) is WaitReason.NOT_REACHED


def test_who_only_asks_is_told_who_would_be_stopped_and_does_not_start_at_once() -> None:
    view = held_by_a_less_urgent_job()
    told = forecast_submission(view, Submission(("true",), priority=1), "bob", T0 + 5)
    assert (told.placement, told.expected_start) == (None, T0 + 5)
    assert "It is expected to start when job 1 has been stopped for it, which is less urgent." in told.sentence


def test_the_lines_in_the_logs_say_for_whom_and_what_was_lost() -> None:
    assert eviction_notice(job(1), TOLD) == f"preempted for job 2: {WORDS}; it goes back to its place in the queue"
    taken_back = replace(TOLD, rule=EvictionRule.POOL_RECLAIM, saves=True)
    assert eviction_notice(job(1, checkpoint_signal="USR1"), taken_back) == (
        f"reclaimed for job 2: {WORDS}; it gets SIGUSR1 and has 1m to save its work; "
        "it goes back to its place in the queue"
    )
    over = replace(TOLD, ran_s=12.0, lost_s=12.0)
    assert goes_on(job(1), over) == "it goes on after it was preempted for job 2; the 12s that it had run are lost"
    assert goes_on(job(1, checkpoint_signal="USR1"), over) == (
        "it goes on after it was preempted for job 2; at most the 12s that it had run are lost"
    )
    assert goes_on(job(1), replace(over, lost_s=2.0)) == (
        "it goes on after it was preempted for job 2; it had run for 12s, and at most the last 2s are lost"
    )
    assert goes_on(job(1), replace(over, saves=True)) == (
        "it goes on after it was preempted for job 2; it had run for 12s, and was signalled first to save its work"
    )
    assert "for job" not in eviction_sentence(job(1), replace(TOLD, for_job_id=None, reason="faster"), T0 + 20)


def test_of_several_who_would_make_room_the_first_is_named() -> None:
    view = view_of(submitted(job(1, name="sweep")))
    evictions = [Evict(n, "9", "", EvictionRule.QUEUE_RECLAIM, "b") for n in ("1", "2", "3")]
    assert room_to_make(view, evictions) == (
        "when sweep (job 1) has been stopped for it, which uses GPUs on loan from its queue, and 2 more jobs"
    )
