"""Which jobs ids name: an id of a job that one, that of an array all its elements."""

from collections.abc import Sequence

from corral.model.errors import NotFound
from corral.model.job import Job
from corral.model.view import View
from corral.ports.ledger import Ledger


def named_jobs(ledger: Ledger, ids: Sequence[str]) -> dict[str, tuple[Job, ...]]:
    """What each id names, in any phase; elements of an array in index order, () for an id that names nothing."""
    active = ledger.view().jobs
    known = {job_id: active[job_id] for job_id in ids if job_id in active}
    known |= {job.id: job for job in ledger.find_jobs([job_id for job_id in ids if job_id not in known])}
    return {job_id: (known[job_id],) if job_id in known else ledger.find_array(job_id) for job_id in ids}


def as_it_is(ledger: Ledger, view: View, found: Job) -> Job:
    """A job that was found before, as this view has it. One that it does not have has ended: then or since."""
    return view.jobs.get(found.id) or (found if found.phase.terminal else ledger.find_job(found.id) or found)


def no_such_job(job_id: str) -> NotFound:
    """The error for an id that names nothing, and for a name where an id belongs."""
    if not job_id[:1].isdigit():
        return NotFound(f"{job_id} is not the id of a job, which is a number; `corral ps --all` lists ids beside names")
    return NotFound(f"there is no job {job_id}; `corral ps --all` lists those there are")
