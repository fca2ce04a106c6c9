"""What becomes of a job that is given other values."""

from dataclasses import replace

import pytest

from corral.core.lifecycle import starting, stopping
from corral.core.lifecycle.updating import update
from corral.core.model.errors import Conflict, Refused
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_update import NOTES_KEPT, JobUpdate
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import started


def running(view: View) -> View:
    return view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))


def test_a_waiting_job_has_the_new_values_and_its_log_will_tell_of_them() -> None:
    view = with_jobs(box(), job(1))
    asked = JobUpdate(priority=1, time_limit_s=60.0, name="new", queue="night")
    (fact,) = update(view.jobs["1"], asked, by="alice", at=203.0)
    spec = view.advance([fact]).jobs["1"].spec
    assert (spec.priority, spec.time_limit_s, spec.name, spec.queue) == (1, 60.0, "new", "night")
    assert (fact.by, fact.at, fact.before) == (
        "alice",
        203.0,
        {"priority": 5, "time_limit_s": None, "name": "", "queue": "default"},
    )
    (note,) = spec.notes
    assert note.startswith("alice changed its priority from 5 to 1, its time limit from none to 1m, its name from ")
    assert note.endswith(" to new and its queue from default to night")


def test_values_that_a_job_has_already_change_nothing() -> None:
    assert update(job(1), JobUpdate(priority=5, queue="default"), by="alice", at=203.0) == []


def test_of_many_changes_the_head_of_the_log_tells_the_last() -> None:
    one = job(1)
    view = with_jobs(box(), replace(one, spec=replace(one.spec, notes=("preflight: fine",))))
    asked = [JobUpdate(priority=1, time_limit_s=60.0), *(JobUpdate(name=f"name {number}") for number in range(50))]
    for each in [*asked, JobUpdate(priority=2)]:
        view = view.advance(update(view.jobs["1"], each, by="alice", at=203.0))
    view = view.advance(update(view.jobs["1"], JobUpdate(priority=3), by="root", at=203.0))
    assert view.jobs["1"].spec.notes == (
        "preflight: fine",
        "alice changed its priority from 5 to 1 and its time limit from none to 1m",
        "alice changed its name from name 48 to name 49",
        "alice changed its priority from 1 to 2",
        "root changed its priority from 2 to 3",
    )
    for number in range(NOTES_KEPT + 5):
        facts = update(view.jobs["1"], JobUpdate(priority=number + 10), by=f"admin{number}", at=203.0)
        view = view.advance(facts)
    assert len(view.jobs["1"].spec.notes) == NOTES_KEPT


def test_a_long_name_is_kept_in_no_sentence_and_the_elements_of_an_array_share_theirs() -> None:
    first, second = (update(job(number), JobUpdate(name="n" * 200), by="alice", at=203.0)[0] for number in (1, 2))
    (note,) = first.changes["notes"]
    assert note.endswith(f" to {'n' * 39}…")
    assert first.changes["notes"] is second.changes["notes"]


def test_a_running_job_cannot_go_to_another_queue_and_all_else_can_change() -> None:
    view = running(started(with_jobs(box(), job(1)), "1", 0))
    with pytest.raises(Conflict, match="job 1 is RUNNING and counts to the quota of queue default"):
        update(view.jobs["1"], JobUpdate(queue="night", priority=1), by="alice", at=203.0)
    asked = JobUpdate(priority=1, time_limit_s=60.0, name="new")
    spec = view.advance(update(view.jobs["1"], asked, by="alice", at=203.0)).jobs["1"].spec
    assert (spec.priority, spec.time_limit_s, spec.name, spec.notes) == (1, 60.0, "new", ())


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase.terminal])
def test_what_has_ended_cannot_be_changed(phase: Phase) -> None:
    with pytest.raises(Conflict, match=rf"already ended \({phase}\)"):
        update(replace(job(1), phase=phase), JobUpdate(priority=1), by="alice", at=203.0)


def test_what_is_cancelled_cannot_be_changed_and_what_makes_room_can() -> None:
    view = running(started(with_jobs(box(), job(1)), "1", 0))
    cancelled = view.advance(stopping.stop(view.jobs["1"], Phase.CANCELLED, "enough", by="bob", at=203.0))
    with pytest.raises(Conflict, match=r"being stopped \(enough\)"):
        update(cancelled.jobs["1"], JobUpdate(priority=1), by="alice", at=204.0)
    evicted = view.advance(stopping.stop(view.jobs["1"], Phase.PENDING, "room", by="bob", at=203.0))
    assert update(evicted.jobs["1"], JobUpdate(priority=1), by="alice", at=204.0)


def test_a_job_that_waits_for_those_of_its_name_keeps_its_name() -> None:
    waiting: Job = job(1, after=("singleton",))
    with pytest.raises(Refused, match="its name cannot change"):
        update(replace(waiting, waits_for=()), JobUpdate(name="new"), by="alice", at=203.0)
