"""What the end of a launch makes of its job, and of the jobs that follow it."""

from dataclasses import replace

from corral.core.lifecycle import commands, ending, starting
from corral.core.model.fact import JobChanged
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, exited, phases, started


def test_a_success_lets_its_followers_go_and_a_failure_cancels_them_all_the_way_down() -> None:
    view = with_jobs(box(), job(1), job(2, after=("1",)), job(3, after=("2",)))
    running = started(view, "1", 0)
    happy = running.advance(ending.ended(running, running.jobs["1"], exited("1"), by="test", at=203.0, backoff=BACKOFF))
    assert happy.jobs["2"].waits_for == ()
    facts = ending.ended(running, running.jobs["1"], exited("1", code=3), by="test", at=203.0, backoff=BACKOFF)
    assert phases(facts, "2") == phases(facts, "3") == [Phase.CANCELLED]
    reasons = [f.changes["reason"] for f in facts if isinstance(f, JobChanged) and f.job_id == "2"]
    assert reasons == ["job 1, which it was to follow, failed"]


def test_a_job_that_waits_for_thousands_is_let_go_by_the_last_and_seldom_written_about_before() -> None:
    parents = [str(number) for number in range(1, 1001)]
    view = with_jobs(box(), *[job(int(parent)) for parent in parents], job(2000, after=tuple(parents)))
    written = 0
    for parent in parents:
        assert view.jobs["2000"].waits_for
        view = started(view, parent, 0)
        facts = ending.ended(view, view.jobs[parent], exited(parent), by="test", at=203.0, backoff=BACKOFF)
        written += sum(len(f.changes.get("waits_for", ())) for f in facts if isinstance(f, JobChanged))
        view = view.advance(facts)
    assert view.jobs["2000"].waits_for == ()
    assert not view.dependants
    assert written < 5 * len(parents)


def test_a_failed_attempt_is_recorded_before_the_job_waits_again() -> None:
    view = started(with_jobs(box(), job(1, retries=1)), "1", 0)
    facts = ending.ended(view, view.jobs["1"], exited("1", code=3), by="test", at=203.0, backoff=BACKOFF)
    assert phases(facts, "1") == [Phase.FAILED, Phase.PENDING]
    again = view.advance(facts).jobs["1"]
    assert (again.attempts, again.eligible_at, again.exit_code) == (1, 204.0, 3)


def test_the_last_attempt_is_final() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    facts = ending.ended(view, view.jobs["1"], exited("1", code=3), by="test", at=203.0, backoff=BACKOFF)
    assert phases(facts, "1") == [Phase.FAILED]


def test_a_cancelled_job_is_cancelled_whatever_its_exit_code_says() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    view = view.advance(commands.cancel(view, view.jobs["1"], by="bob", at=203.0))
    facts = ending.ended(view, view.jobs["1"], exited("1", code=0), by="test", at=204.0, backoff=BACKOFF)
    assert phases(facts, "1") == [Phase.CANCELLED]
    assert view.jobs["1"].reason == "cancelled by bob"


def test_a_lost_supervisor_loses_the_job_unless_it_may_be_tried_again() -> None:
    dead = LaunchReport("1.1", LaunchPhase.DEAD)
    for retries, expected in ((0, [Phase.LOST]), (1, [Phase.LOST, Phase.PENDING])):
        view = started(with_jobs(box(), job(1, retries=retries)), "1", 0)
        assert phases(ending.ended(view, view.jobs["1"], dead, by="test", at=203.0, backoff=BACKOFF), "1") == expected


def test_a_job_that_ran_out_of_time_says_how_much_it_had() -> None:
    limited = replace(job(1), spec=replace(job(1).spec, time_limit_s=5400.0))
    view = started(with_jobs(box(), limited), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    report = exited("1", code=143, ending=Phase.TIMED_OUT)
    (outcome, *_) = ending.ended(view, view.jobs["1"], report, by="test", at=202.0, backoff=BACKOFF)
    assert isinstance(outcome, JobChanged)
    assert (outcome.changes["phase"], outcome.changes["reason"]) == (Phase.TIMED_OUT, "its time limit of 1h 30m")
