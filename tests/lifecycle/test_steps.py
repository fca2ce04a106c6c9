from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from corral.lifecycle import commands, ending, starting, stopping
from corral.lifecycle.step import Backoff
from corral.model.allocation import Grant, Member, Placement
from corral.model.errors import Conflict
from corral.model.eviction import Eviction, EvictionRule
from corral.model.fact import AllocationEnded, Fact, JobChanged, JobRequeued, JobSubmitted
from corral.model.job import NEXT_PHASES, Job, JobKind, Phase
from corral.model.launch import LaunchPhase, LaunchReport
from corral.model.plan import Evict
from corral.model.view import View, ViewDraft
from tests.control.strategies import box, job, with_jobs

BACKOFF = Backoff()
URGENT = Evict("1", "2", "taken back", EvictionRule.QUEUE_RECLAIM, "b")
WHOLE = 1000


def place(*indices: int) -> Placement:
    return Placement((Member("box", tuple(Grant(f"GPU-{i}", WHOLE) for i in indices)),))


def started(view: View, job_id: str, *indices: int) -> View:
    return view.advance(starting.start(view.jobs[job_id], place(*indices), by="test", at=200.0))


def exited(job_id: str, code: int = 0, ending: Phase | None = None) -> LaunchReport:
    how = ending or (Phase.SUCCEEDED if code == 0 else Phase.FAILED)
    return LaunchReport(f"{job_id}.1", LaunchPhase.EXITED, 201.0, 202.0, exit_code=code, ending=how)


def phases(facts: list[Fact], job_id: str) -> list[Phase]:
    return [
        f.changes["phase"] for f in facts if isinstance(f, JobChanged) and f.job_id == job_id and "phase" in f.changes
    ]


def test_a_start_hands_the_devices_out_and_an_end_gives_them_back() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0, 1)
    assert set(view.holders) == {"GPU-0", "GPU-1"}
    view = view.advance(ending.ended(view, view.jobs["1"], exited("1"), by="test", at=203.0, backoff=BACKOFF))
    assert not view.holders
    assert "1" not in view.jobs


@pytest.mark.parametrize(
    ("age_s", "now", "ends"),
    [(74.0, 274.0, False), (76.0, 276.0, True), (None, 900.0, False), (76.0, 210.0, False), (10.0, 90_000.0, False)],
)
def test_a_job_is_ended_for_its_time_limit_once_both_clocks_say_that_its_supervisor_did_not(
    age_s: float | None, now: float, ends: bool
) -> None:
    limited = job(1)
    limited = replace(limited, spec=replace(limited.spec, time_limit_s=60.0))
    view = started(with_jobs(box(), limited), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 200.0, by="test", at=200.0))
    report = LaunchReport("1.1", LaunchPhase.RUNNING, 200.0, age_s=age_s)
    facts = stopping.overdue(view.jobs["1"], report, 10.0, by="test", at=now)
    assert phases(facts, "1") == ([Phase.STOPPING] if ends else [])
    if ends:
        view = view.advance(facts)
        dead = LaunchReport("1.1", LaunchPhase.DEAD, 200.0)
        ended = ending.ended(view, view.jobs["1"], dead, by="test", at=now, backoff=BACKOFF)[0]
        assert isinstance(ended, JobChanged)
        assert ended.changes["phase"] is Phase.TIMED_OUT
        assert "stopped or stuck" in str(ended.changes["reason"])


@pytest.mark.parametrize(("age_s", "ends"), [(130.0, False), (136.0, True)])
def test_a_job_whose_start_was_never_told_is_ended_for_its_time_limit_too(age_s: float, ends: bool) -> None:
    limited = job(1)
    limited = replace(limited, spec=replace(limited.spec, time_limit_s=60.0))
    view = started(with_jobs(box(), limited), "1", 0)
    report = LaunchReport("1.1", LaunchPhase.CLAIMED, age_s=age_s)
    facts = stopping.overdue(view.jobs["1"], report, 10.0, by="test", at=900.0)
    assert phases(facts, "1") == ([Phase.STOPPING] if ends else [])


LATE = 1e6


@pytest.mark.parametrize("told", [0.0, 1e10, LATE - 90_000, LATE + 90_000])
def test_a_time_that_no_clock_can_have_shown_is_not_believed(told: float) -> None:
    view = with_jobs(box(), job(1))
    view = view.advance(starting.start(view.jobs["1"], place(0), by="test", at=LATE))
    view = view.advance(starting.running(view, view.jobs["1"], told, by="test", at=LATE + 1))
    assert view.jobs["1"].started_at == LATE + 1
    report = LaunchReport("1.1", LaunchPhase.EXITED, told, told, exit_code=0, ending=Phase.SUCCEEDED)
    changed = ending.ended(view, view.jobs["1"], report, by="test", at=LATE + 3, backoff=BACKOFF)[0]
    assert isinstance(changed, JobChanged)
    assert "started_at" not in changed.changes
    assert changed.changes["ended_at"] == LATE + 3


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


def test_an_evicted_job_keeps_its_place_and_waits_again() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    view = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=203.0))
    view = view.advance(ending.ended(view, view.jobs["1"], exited("1", code=143), by="test", at=204.0, backoff=BACKOFF))
    assert (view.jobs["1"].phase, view.jobs["1"].sequence, view.holders) == (Phase.PENDING, 1, {})


def made_room(chosen: Job, told_at: float, ended_at: float) -> tuple[Job, AllocationEnded]:
    """The job after it ran from 201 on and made room, and the end of what it held."""
    view = started(with_jobs(box(), chosen), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    view = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=told_at))
    report = replace(exited("1", code=143), ended_at=ended_at)
    facts = ending.ended(view, view.jobs["1"], report, by="test", at=ended_at, backoff=BACKOFF)
    (freed,) = (fact for fact in facts if isinstance(fact, AllocationEnded))
    return view.advance(facts).jobs["1"], freed


def test_it_is_kept_for_whom_by_which_rule_and_at_what_loss_a_job_made_room() -> None:
    after, freed = made_room(job(1), 211.0, 214.0)
    assert after.evicted == Eviction(
        EvictionRule.QUEUE_RECLAIM, "2", "taken back", 211.0, "1.1", lender="b", ran_s=13.0, lost_s=13.0
    )
    assert (after.evictions, after.lost_s, freed.lost_from) == (1, 13.0, 200.0)


def test_of_a_job_that_is_signalled_first_only_what_it_ran_after_that_is_lost() -> None:
    after, freed = made_room(replace(job(1), spec=replace(job(1).spec, checkpoint_signal="USR1")), 211.0, 214.0)
    assert after.evicted is not None
    assert (after.evicted.saves, after.evicted.ran_s, after.lost_s, freed.lost_from) == (True, 13.0, 3.0, 211.0)


def test_the_record_stays_when_the_job_starts_again_and_the_losses_add_up() -> None:
    first, _ = made_room(job(1), 211.0, 214.0)
    view = started(with_jobs(box(), first), "1", 0)
    assert (view.jobs["1"].evicted, view.jobs["1"].evicted_before) == (None, first.eviction)
    view = view.advance(starting.running(view, view.jobs["1"], 300.0, by="test", at=300.0))
    view = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=310.0))
    report = replace(exited("1", code=143), launch_id="1.2", started_at=300.0, ended_at=310.0)
    again = view.advance(ending.ended(view, view.jobs["1"], report, by="test", at=310.0, backoff=BACKOFF)).jobs["1"]
    assert (again.evictions, again.lost_s) == (2, 23.0)


def test_who_requeues_or_cancels_a_job_makes_it_lose_nothing_to_others() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    requeued = view.advance(commands.requeue(view, view.jobs["1"], by="bob", at=203.0))
    cancelled = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=203.0))
    cancelled = cancelled.advance(commands.cancel(cancelled, cancelled.jobs["1"], by="bob", at=203.5))
    for each in (requeued, cancelled):
        facts = ending.ended(each, each.jobs["1"], exited("1", code=143), by="test", at=204.0, backoff=BACKOFF)
        assert [fact.lost_from for fact in facts if isinstance(fact, AllocationEnded)] == [None]
        assert not any("lost_s" in fact.changes for fact in facts if isinstance(fact, JobChanged))


@pytest.mark.parametrize("rule_", [EvictionRule.IDLE, EvictionRule.MEMORY])
def test_a_job_that_is_stopped_for_good_tells_by_which_rule(rule_: EvictionRule) -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    (fact,) = stopping.stop(view.jobs["1"], Phase.CANCELLED, "unused", by="test", at=203.0, rule=rule_, for_job_id="2")
    assert isinstance(fact, JobChanged)
    assert fact.changes["eviction"] == Eviction(rule_, "2", "unused", 203.0, "1.1")


def test_a_lost_supervisor_loses_the_job_unless_it_may_be_tried_again() -> None:
    dead = LaunchReport("1.1", LaunchPhase.DEAD)
    for retries, expected in ((0, [Phase.LOST]), (1, [Phase.LOST, Phase.PENDING])):
        view = started(with_jobs(box(), job(1, retries=retries)), "1", 0)
        assert phases(ending.ended(view, view.jobs["1"], dead, by="test", at=203.0, backoff=BACKOFF), "1") == expected


@pytest.mark.parametrize("how", [LaunchPhase.EXITED, LaunchPhase.DEAD])
def test_a_job_that_was_stopped_for_what_it_did_has_failed_with_that_reason_and_may_be_tried_again(
    how: LaunchPhase,
) -> None:
    view = started(with_jobs(box(), job(1), job(2, retries=1)), "1", 0)
    view = started(view, "2", 1)
    endings = {}
    for job_id in ("1", "2"):
        view = view.advance(stopping.stop(view.jobs[job_id], Phase.FAILED, "it held too much", by="test", at=201.0))
        report = LaunchReport(f"{job_id}.1", how, 200.0, 202.0, signal=15, exit_code=143, ending=Phase.FAILED)
        facts = ending.ended(view, view.jobs[job_id], report, by="test", at=203.0, backoff=BACKOFF)
        endings[job_id] = phases(facts, job_id)
        first = next(fact for fact in facts if isinstance(fact, JobChanged))
        assert first.changes["reason"] == "it held too much"
    assert endings == {"1": [Phase.FAILED], "2": [Phase.FAILED, Phase.PENDING]}


def test_a_launch_that_fails_too_often_fails_the_job_with_the_last_reason() -> None:
    view = with_jobs(box(), job(1))
    for _ in range(starting.MAX_LAUNCH_FAILURES):
        view = started(view, "1", 0)
        facts = starting.launch_failed(
            view, view.jobs["1"], "no memory for a fork", by="test", at=203.0, backoff=BACKOFF
        )
        view = view.advance(facts)
    assert phases(facts, "1") == [Phase.FAILED]
    assert "no memory for a fork" in str(facts)


def test_what_has_ended_cannot_be_cancelled_and_what_runs_cannot_be_held() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    with pytest.raises(Conflict, match="only a job that waits can be held"):
        commands.hold(view.jobs["1"], True, by="test", at=203.0)
    over = ending.ended(view, view.jobs["1"], exited("1"), by="test", at=203.0, backoff=BACKOFF)
    done = Job("1", 1, view.jobs["1"].spec, 100.0, phase=Phase.SUCCEEDED)
    assert phases(over, "1") == [Phase.SUCCEEDED]
    with pytest.raises(Conflict, match="already ended"):
        commands.cancel(view, done, by="bob", at=204.0)


def test_the_pause_before_another_try_doubles_up_to_the_longest() -> None:
    backoff = Backoff(1.0, 300.0)
    assert [backoff.after(failures) for failures in (1, 2, 3, 9, 10, 1000)] == [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]


def test_each_launch_has_an_allocation_of_its_own_and_only_what_ran_counts_as_an_attempt() -> None:
    view = started(with_jobs(box(), job(1, retries=3)), "1", 0)
    first = view.jobs["1"].allocation_id
    view = view.advance(starting.never_ran(view, view.jobs["1"], by="test", at=201.0))
    assert (view.jobs["1"].phase, view.jobs["1"].attempts, dict(view.holders)) == (Phase.PENDING, 0, {})
    view = started(view, "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    allocation = view.allocations[view.jobs["1"].allocation_id or ""]
    assert (first, allocation.id, allocation.attempt, allocation.reserved) == ("1.1", "1.2", 1, False)
    view = view.advance(ending.ended(view, view.jobs["1"], exited("1", code=3), by="test", at=203.0, backoff=BACKOFF))
    assert view.jobs["1"].attempts == 1
    again = started(view, "1", 0)
    assert again.allocations["1.3"].attempt == 2


def test_what_a_session_holds_is_marked_as_reserved() -> None:
    session = job(1)
    session = replace(session, spec=replace(session.spec, kind=JobKind.RESERVE))
    assert started(with_jobs(box(), session), "1", 0).allocations["1.1"].reserved


def test_a_reservation_that_is_released_has_ended_well_and_holds_nothing() -> None:
    session = job(1)
    session = replace(session, spec=replace(session.spec, kind=JobKind.RESERVE))
    view = started(with_jobs(box(), session, job(2, after=("1",))), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    facts = commands.release(view, view.jobs["1"], by="alice", at=202.0)
    outcome = facts[0]
    assert isinstance(outcome, JobChanged)
    assert (outcome.changes["phase"], outcome.changes["reason"]) == (Phase.SUCCEEDED, "released by alice")
    view = view.advance(facts)
    assert not any(view.holders.values())
    assert view.jobs["2"].phase is Phase.PENDING


def test_a_job_that_ran_out_of_time_says_how_much_it_had() -> None:
    limited = replace(job(1), spec=replace(job(1).spec, time_limit_s=5400.0))
    view = started(with_jobs(box(), limited), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    report = exited("1", code=143, ending=Phase.TIMED_OUT)
    (outcome, *_) = ending.ended(view, view.jobs["1"], report, by="test", at=202.0, backoff=BACKOFF)
    assert isinstance(outcome, JobChanged)
    assert (outcome.changes["phase"], outcome.changes["reason"]) == (Phase.TIMED_OUT, "its time limit of 1h 30m")


def test_only_a_reservation_can_be_released_while_it_runs() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    with pytest.raises(Conflict, match="only a job that waits can be released"):
        commands.release(view, view.jobs["1"], by="alice", at=202.0)


def test_a_launch_that_failed_is_tried_again_after_a_pause_that_grows() -> None:
    view = with_jobs(box(), job(1))
    eligible = []
    for _ in range(3):
        view = started(view, "1", 0)
        view = view.advance(
            starting.launch_failed(view, view.jobs["1"], "no room", by="test", at=203.0, backoff=BACKOFF)
        )
        eligible.append(view.jobs["1"].eligible_at)
    assert eligible == [204.0, 205.0, 207.0]
    assert (view.jobs["1"].phase, view.jobs["1"].attempts, dict(view.holders)) == (Phase.PENDING, 0, {})


@pytest.mark.parametrize("came_to_nothing", ["never_ran", "launch_failed"])
def test_what_was_stopped_before_it_ran_ends_as_it_was_to_end(came_to_nothing: str) -> None:
    def nothing(view: View) -> list[Fact]:
        if came_to_nothing == "never_ran":
            return starting.never_ran(view, view.jobs["1"], by="test", at=204.0)
        return starting.launch_failed(view, view.jobs["1"], "no", by="test", at=204.0, backoff=BACKOFF)

    view = started(with_jobs(box(), job(1), job(2, after=("1",))), "1", 0)
    evicted = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=203.0))
    assert phases(nothing(evicted), "1") == [Phase.PENDING]
    cancelled = view.advance(commands.cancel(view, view.jobs["1"], by="bob", at=203.0))
    facts = nothing(cancelled)
    assert (phases(facts, "1"), phases(facts, "2")) == ([Phase.CANCELLED], [Phase.CANCELLED])
    assert not cancelled.advance(facts).holders


def test_a_waiting_job_is_cancelled_with_all_that_were_to_follow_it() -> None:
    view = with_jobs(box(), job(1), job(2, after=("1",)), job(3, after=("2",)), job(4))
    facts = commands.cancel(view, view.jobs["1"], by="bob", at=203.0)
    assert [phases(facts, job_id) for job_id in ("1", "2", "3", "4")] == [[Phase.CANCELLED]] * 3 + [[]]


def test_a_job_that_failed_can_be_run_once_more_and_a_session_cannot() -> None:
    failed = replace(job(1), phase=Phase.FAILED, launch_failures=4, eligible_at=900.0, reason="it broke")
    (fact,) = commands.requeue(View(), failed, by="bob", at=203.0)
    assert isinstance(fact, JobRequeued)
    again = fact.job
    assert (again.phase, again.launch_failures, again.eligible_at, again.reason) == (Phase.PENDING, 0, None, None)
    with pytest.raises(Conflict, match="a reservation"):
        commands.requeue(View(), replace(failed, spec=replace(failed.spec, kind=JobKind.RESERVE)), by="bob", at=203.0)


class JobLife(RuleBasedStateMachine):
    """Any order of steps: phases only move along legal lines, and devices belong to live jobs alone."""

    def __init__(self) -> None:
        super().__init__()
        self.view = box()
        self.count = 0

    def take(self, facts: list[Fact]) -> None:
        draft = ViewDraft(self.view)
        for fact in facts:
            if isinstance(fact, JobChanged) and "phase" in fact.changes:
                before = draft.view.jobs[fact.job_id].phase
                assert fact.changes["phase"] in NEXT_PHASES[before]
            draft.apply([fact])
        self.view = draft.freeze()

    def some(self, data: st.DataObject, *allowed: Phase) -> Job | None:
        found = sorted(j.id for j in self.view.jobs.values() if j.phase in allowed)
        return self.view.jobs[data.draw(st.sampled_from(found))] if found else None

    @rule(data=st.data(), retries=st.integers(0, 1))
    def submit(self, data: st.DataObject, retries: int) -> None:
        self.count += 1
        parents = sorted(j for j, x in self.view.jobs.items() if not x.phase.terminal)
        after = tuple(data.draw(st.lists(st.sampled_from(parents), unique=True, max_size=2))) if parents else ()
        self.take([JobSubmitted(job(self.count, retries=retries, after=after), at=100.0, by="alice")])

    @precondition(lambda self: len(self.view.holders) < 4)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        chosen = self.some(data, Phase.PENDING)
        free = [i for i in range(4) if f"GPU-{i}" not in self.view.holders]
        if chosen is not None and not chosen.waits_for:
            self.take(starting.start(chosen, place(free[0]), by="test", at=1.0))

    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        if chosen := self.some(data, Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            self.take(starting.running(self.view, chosen, 2.0, by="test", at=2.0))

    @rule(data=st.data(), code=st.sampled_from([0, 1]), how=st.sampled_from([None, Phase.TIMED_OUT, Phase.CANCELLED]))
    def exit(self, data: st.DataObject, code: int, how: Phase | None) -> None:
        if chosen := self.some(data, Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            self.take(ending.ended(self.view, chosen, exited(chosen.id, code, how), by="test", at=3.0, backoff=BACKOFF))

    @rule(data=st.data(), step=st.sampled_from(["dead", "failed", "never", "cancel", "evict"]))
    def disturb(self, data: st.DataObject, step: str) -> None:
        phases = (Phase.STARTING,) if step in ("failed", "never") else (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
        if (chosen := self.some(data, *phases)) is None:
            return
        dead = LaunchReport(f"{chosen.id}.1", LaunchPhase.DEAD)
        facts = {
            "dead": lambda: ending.ended(self.view, chosen, dead, by="test", at=3.0, backoff=BACKOFF),
            "failed": lambda: starting.launch_failed(self.view, chosen, "no", by="test", at=3.0, backoff=BACKOFF),
            "never": lambda: starting.never_ran(self.view, chosen, by="test", at=3.0),
            "cancel": lambda: commands.cancel(self.view, chosen, by="bob", at=3.0),
            "evict": lambda: stopping.evict(chosen, URGENT, by="test", at=3.0),
        }
        self.take(facts[step]())

    @invariant()
    def devices_belong_to_live_jobs_alone(self) -> None:
        live = {j.id for j in self.view.jobs.values() if j.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)}
        holding = {allocation.job_id for allocation in self.view.allocations.values()}
        assert holding == live
        assert all(len(ids) == 1 for ids in self.view.holders.values())

    @invariant()
    def nobody_waits_for_a_job_that_is_gone(self) -> None:
        for each in self.view.jobs.values():
            assert all(parent in self.view.jobs for parent in each.waits_for)


TestJobLife = JobLife.TestCase
TestJobLife.settings = settings(max_examples=60, stateful_step_count=30)
