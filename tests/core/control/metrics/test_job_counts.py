from dataclasses import replace

from corral.core.control.metrics.job_counts import JobCounts
from corral.core.model.fact import AllocationMade, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.view import View

SPEC = JobSpec(user="alice", command=("true",), request=Request(), queue="night")
JOB = Job("1", 1, SPEC, submitted_at=100.0, phase=Phase.STARTING)


def counted(job: Job, *deltas: AllocationMade | JobChanged) -> JobCounts:
    counts = JobCounts(View())
    counts.on_change(View(jobs={job.id: job}), deltas)
    return counts


def made(at: float, attempt: int = 1) -> AllocationMade:
    allocation = Allocation(f"1.{attempt}", "1", "alice", Placement(()), created_at=at, attempt=attempt)
    return AllocationMade(allocation, at=at, by="server")


def test_a_wait_counts_from_the_submission_without_what_the_job_was_parked() -> None:
    counts = counted(replace(JOB, waited=(("Held", 60.0), ("Resources", 30.0), ("BeginTime", 5.0))), made(195.5))
    assert counts.waits["night"].sum == 30.5


def test_only_the_first_start_of_a_job_ends_a_wait() -> None:
    assert counted(JOB, made(200.0, attempt=2)).waits == {}


def test_a_wait_is_never_less_than_nothing() -> None:
    assert counted(JOB, made(99.0)).waits["night"].sum == 0.0


def test_ends_are_counted_by_phase_and_queue_and_other_changes_are_not() -> None:
    changes = [
        JobChanged("1", {"phase": Phase.RUNNING}, at=1.0, by="server"),
        JobChanged("1", {"phase": Phase.FAILED}, at=1.0, by="server"),
        JobChanged("1", {"phase": Phase.FAILED}, at=2.0, by="server"),
        JobChanged("1", {"held": True}, at=1.0, by="server"),
        JobChanged("2", {"phase": Phase.FAILED}, at=1.0, by="server"),
    ]
    assert counted(JOB, *changes).ends == {("FAILED", "night"): 2}


def ended(at: float) -> JobChanged:
    return JobChanged("1", {"phase": Phase.CANCELLED}, at=at, by="alice")


def test_an_end_takes_the_job_out_of_the_view_and_is_counted() -> None:
    view = View(jobs={"1": JOB})
    counts = JobCounts(view)
    counts.on_change(view.advance([ended(1.0)]), [ended(1.0)])
    assert counts.ends == {("CANCELLED", "night"): 1}


def test_a_job_that_begins_and_ends_in_one_publication_is_counted() -> None:
    counts = JobCounts(View())
    deltas = [JobSubmitted(JOB, at=1.0, by="alice"), ended(2.0)]
    view = View().advance(deltas)
    assert not view.jobs
    counts.on_change(view, deltas)
    assert counts.ends == {("CANCELLED", "night"): 1}
