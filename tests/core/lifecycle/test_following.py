"""Jobs that wait for what becomes of others, whatever does: held against what the clauses say of the whole story."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from corral.core.control.submitting.new_jobs import admit
from corral.core.lifecycle import commands, ending, starting, stopping
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationEnded, Fact, JobChanged, JobSubmitted
from corral.core.model.jobs.dependency import Condition, clauses_of, covers
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.plan import Evict
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.view import View, ViewDraft
from tests.core.control.strategies import box, job, with_jobs

WORDS = [*(one.value for one in Condition if one is not Condition.SINGLETON), "singleton"]
LIVE = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)


@dataclass
class Fate:
    """What became of a job so far."""

    job: Job
    starts: int = 0

    @property
    def runs(self) -> bool:
        return self.job.phase is Phase.RUNNING or (self.job.phase is Phase.STOPPING and self.job.started_at is not None)

    @property
    def good(self) -> bool:
        return self.job.phase is Phase.SUCCEEDED

    @property
    def over(self) -> bool:
        return self.job.phase.terminal


Seen = tuple[str, int]
"""A parent, and how often it had started before, the run in which it was found not counted."""


def holds(condition: Condition, seen: list[tuple[Fate, int]]) -> bool | None:
    """Whether a condition of these jobs holds by all that is known of them, None while that is open."""
    fates = [fate for fate, _ in seen]
    over = all(one.over for one in fates)
    match condition:
        case Condition.OK | Condition.CORR:
            if any(one.over and not one.good for one in fates):
                return False
            return True if over else None
        case Condition.NOT_OK:
            return any(not one.good for one in fates) if over else None
        case Condition.START:
            return True if all(fate.starts > before or fate.over for fate, before in seen) else None
        case _:
            return True if over else None


class Followers(RuleBasedStateMachine):
    """Jobs and arrays that follow each other in every way, and end in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.count = 0
        self.fates: dict[str, Fate] = {}
        self.parents: dict[str, list[list[tuple[Condition, list[Seen]]]]] = {}

    def take(self, facts: list[Fact] | tuple[Fact, ...]) -> None:
        draft = ViewDraft(self.view)
        for fact in facts:
            draft.apply([fact])
            if isinstance(fact, AllocationEnded):
                continue
            changed = draft.view.jobs.get(getattr(fact, "job_id", ""))
            if changed is not None:
                fate = self.fates[changed.id]
                ran = fate.job.phase is Phase.RUNNING
                fate.job, fate.starts = changed, fate.starts + (changed.phase is Phase.RUNNING and not ran)
            elif isinstance(fact, JobSubmitted):
                self.fates[fact.job.id] = Fate(fact.job)
        self.view = draft.freeze()

    def find(self, job_id: str) -> tuple[Job, ...]:
        return tuple(one.job for one in self.fates.values() if job_id in (one.job.id, one.job.array_id))

    def some(self, data: st.DataObject, *phases: Phase) -> Job | None:
        found = sorted(one.id for one in self.view.jobs.values() if one.phase in phases)
        return self.view.jobs[data.draw(st.sampled_from(found))] if found else None

    @rule(data=st.data(), size=st.sampled_from([0, 0, 2, 3]), retries=st.integers(0, 1), name=st.sampled_from("ab"))
    def submit(self, data: st.DataObject, size: int, retries: int, name: str) -> None:
        self.count += 1
        named = sorted({one.job.array_id or job_id for job_id, one in self.fates.items()} | set(self.fates))
        terms = st.builds(lambda word, one: word if word == "singleton" else f"{word}:{one}", st.sampled_from(WORDS),
                          st.sampled_from(named or ["0"]))  # fmt: skip
        clauses = st.lists(terms, min_size=1, max_size=2, unique=True).map("?".join)
        after = tuple(
            data.draw(st.lists(clauses, min_size=min(1, len(named)), max_size=2 * min(1, len(named)), unique=True))
        )
        spec = JobSpec("alice", ("true",), name=name, request=Request(devices=0), retries=retries, after=after)
        number = str(self.count)
        jobs = [Job(number, self.count, spec, 100.0)]
        if size:
            jobs = [Job(f"{number}_{n}", self.count, spec, 100.0, array_id=number, array_index=n) for n in range(size)]
        before = dict(self.fates)
        try:
            facts = admit(self.view, jobs, self.find, "alice", 100.0).facts
        except Refused:
            return  # an element without its counterpart
        for one in jobs:
            self.parents[one.id] = [
                [
                    (t.condition, [(j, f.starts - f.runs) for j, f in before.items() if covers(t, one, f.job)])
                    for t in clause
                ]
                for clause in clauses_of(after)
            ]
        self.take(facts)

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        chosen = self.some(data, Phase.PENDING)
        if chosen is not None and not chosen.waits_for:
            self.take(starting.start(chosen, Placement(()), by="test", at=1.0))
            if data.draw(st.booleans()):
                self.take(starting.running(self.view, self.view.jobs[chosen.id], 2.0, by="test", at=2.0))

    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        if chosen := self.some(data, Phase.STARTING):
            self.take(starting.running(self.view, chosen, 2.0, by="test", at=2.0))

    @rule(data=st.data(), code=st.sampled_from([0, 0, 1]), dead=st.booleans())
    def end(self, data: st.DataObject, code: int, dead: bool) -> None:
        if chosen := self.some(data, *LIVE):
            fate = Phase.SUCCEEDED if code == 0 else Phase.FAILED
            report = LaunchReport(f"{chosen.id}.1", LaunchPhase.EXITED, 2.0, 3.0, exit_code=code, ending=fate)
            if dead and code:
                report = LaunchReport(f"{chosen.id}.1", LaunchPhase.DEAD)
            self.take(ending.ended(self.view, chosen, report, by="test", at=3.0, backoff=Backoff()))

    @rule(data=st.data())
    def make_room(self, data: st.DataObject) -> None:
        if chosen := self.some(data, Phase.STARTING, Phase.RUNNING):
            self.take(stopping.evict(chosen, Evict(chosen.id, "0", "room"), by="test", at=3.0))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if chosen := self.some(data, Phase.PENDING, Phase.STARTING, Phase.RUNNING):
            self.take(commands.cancel(self.view, chosen, by="bob", at=3.0))

    @invariant()
    def everybody_waits_goes_or_is_cancelled_as_the_clauses_say(self) -> None:
        for job_id, clauses in self.parents.items():
            fate = self.fates[job_id]
            truths = [
                [holds(condition, [(self.fates[one], count) for one, count in seen]) for condition, seen in clause]
                for clause in clauses
            ]
            lost = any(all(truth is False for truth in clause) for clause in truths)
            met = all(True in clause for clause in truths)
            if lost:
                assert fate.job.phase is Phase.CANCELLED, (job_id, truths, fate)
            elif not fate.over:
                assert (fate.job.waits_for == ()) is met, (job_id, truths, fate)


TestFollowers = Followers.TestCase
TestFollowers.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def cancelled(view: View, job_id: str) -> View:
    return view.advance(commands.cancel(view, view.jobs[job_id], by="bob", at=9.0))


def test_one_that_waits_for_two_ends_goes_when_one_end_brings_the_other() -> None:
    view = with_jobs(
        box(), job(1), job(2, after=("1",)), replace(job(3, after=("any:1", "any:2")), waits_for=("1", "2"))
    )
    assert cancelled(view, "1").jobs["3"].waits_for == ()


def test_one_that_waits_for_an_end_and_a_success_that_it_takes_away_is_cancelled() -> None:
    view = with_jobs(box(), job(1), job(2, after=("1",)), replace(job(3, after=("any:1", "2")), waits_for=("1", "2")))
    assert "3" not in cancelled(view, "1").jobs


def test_who_waited_for_a_failure_that_did_not_come_is_told_so() -> None:
    view = with_jobs(box(), job(1), replace(job(2, after=("notok:1",)), waits_for=("1",)))
    view = view.advance(starting.start(view.jobs["1"], Placement(()), by="test", at=1.0))
    report = LaunchReport("1.1", LaunchPhase.EXITED, 2.0, 3.0, exit_code=0, ending=Phase.SUCCEEDED)
    facts = ending.ended(view, view.jobs["1"], report, by="test", at=3.0, backoff=Backoff())
    reasons = [one.changes["reason"] for one in facts if isinstance(one, JobChanged) and one.job_id == "2"]
    assert reasons == ["job 1, whose failure it was to follow, succeeded"]


def test_an_array_has_not_ended_well_once_all_of_it_has_ended_and_not_all_well() -> None:
    elements = [replace(job(n + 1), id=f"1_{n}", array_id="1", array_index=n) for n in range(3)]
    child = replace(job(9, after=("notok:1",)), waits_for=("1_0", "1_1", "1_2"))
    view = cancelled(with_jobs(box(), *elements, child), "1_0")
    assert (view.jobs["9"].waits_for, view.jobs["9"].conditions) == (("1_1", "1_2"), ("any:1",))
    for job_id in ("1_1", "1_2"):
        view = view.advance(starting.start(view.jobs[job_id], Placement(()), by="test", at=1.0))
        report = LaunchReport(f"{job_id}.1", LaunchPhase.EXITED, 2.0, 3.0, exit_code=0, ending=Phase.SUCCEEDED)
        view = view.advance(ending.ended(view, view.jobs[job_id], report, by="test", at=3.0, backoff=Backoff()))
    assert (view.jobs["9"].phase, view.jobs["9"].waits_for, view.jobs["9"].conditions) == (Phase.PENDING, (), ())


def test_whoever_waits_for_a_start_goes_when_the_job_runs_and_not_when_it_only_has_its_devices() -> None:
    view = with_jobs(box(), job(1), replace(job(2, after=("start:1",)), waits_for=("1",)))
    view = view.advance(starting.start(view.jobs["1"], Placement(()), by="test", at=1.0))
    assert view.jobs["2"].waits_for == ("1",)
    view = view.advance(starting.running(view, view.jobs["1"], 2.0, by="test", at=2.0))
    assert view.jobs["2"].waits_for == ()


def test_jobs_of_a_name_that_come_together_follow_each_other() -> None:
    alike = [replace(job(n), spec=replace(job(n).spec, name="a", after=("singleton",))) for n in (2, 3)]
    other = replace(job(4), spec=replace(alike[0].spec, name="b"))
    view = with_jobs(box(), replace(job(1), spec=replace(job(1).spec, name="a")))
    facts = admit(view, [*alike, other], lambda _: (), "alice", 5.0).facts
    assert [one.job.waits_for for one in facts if isinstance(one, JobSubmitted)] == [("1",), ("1", "2"), ()]


@pytest.mark.parametrize(("index", "said"), [(None, "add --array"), (7, "has no element 7")])
def test_an_element_without_its_counterpart_is_refused(index: int | None, said: str) -> None:
    view = with_jobs(box(), replace(job(1), id="1_0", array_id="1", array_index=0))
    one = replace(job(2), spec=replace(job(2).spec, after=("corr:1",)), array_index=index)
    with pytest.raises(Refused, match=said):
        admit(view, [one], lambda _: (view.jobs["1_0"],), "alice", 5.0)
