"""Resolves ids to jobs: a job's id names that job, an array's id all its elements, and 17_[3-9] some of them."""

from collections.abc import Collection, Mapping, Sequence

from corral.core.model.errors import NotFound, Refused
from corral.core.model.jobs.array_indices import MAX_ARRAY_SIZE, in_short, named_elements
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger


def named_jobs(ledger: Ledger, ids: Sequence[str]) -> dict[str, tuple[Job, ...]]:
    """Return the jobs of each id, in any phase. Elements of an array are in index order; an unknown id has ().

    Raises Refused for elements that cannot be parsed or are too many, and NotFound if an array lacks one of them.
    """
    several = _several(ids)
    wanted = [job_id for job_id in ids if job_id not in several]
    wanted += [element for _, elements in several.values() for element in elements or ()]
    active = ledger.view().jobs
    known = {job_id: active[job_id] for job_id in wanted if job_id in active}
    known |= {job.id: job for job in ledger.find_jobs([job_id for job_id in wanted if job_id not in known])}
    found: dict[str, tuple[Job, ...]] = {}
    for job_id in ids:
        array_id, elements = several.get(job_id, (job_id, None))
        if elements is not None:
            found[job_id] = _elements(ledger, job_id, array_id, elements, known)
        else:
            found[job_id] = (known[job_id],) if job_id in known else ledger.find_array(array_id)
    return found


def as_it_is(ledger: Ledger, view: View, found: Job) -> Job:
    """Return the current state of a job that was found before. A job that is not in this view has ended."""
    return view.jobs.get(found.id) or (found if found.phase.terminal else ledger.find_job(found.id) or found)


def no_such_job(job_id: str, array: Sequence[Job] = ()) -> NotFound:
    """Return the error for an id that names no job, or for a name in place of an id. `array` is the array that lacks
    the element.
    """
    if array:
        return NotFound(f"there is no job {job_id}; the elements of this array are {_in_short(array)}")
    if not job_id[:1].isdigit():
        return NotFound(f"{job_id} is not the id of a job, which is a number; `corral ps --all` lists ids beside names")
    return NotFound(f"there is no job {job_id}; `corral ps --all` lists all jobs")


def several_jobs(job_id: str, jobs: Sequence[Job]) -> NotFound:
    """Return the error for an id that names several jobs although one is required. It lists jobs and phases."""
    begun = next((job for job in jobs if job.launches), jobs[0])
    what = "are several jobs; name one of them" if named_elements(job_id) else "is an array; name one of its elements"
    return NotFound(f"{job_id} {what}, such as {begun.id}: {_in_phases(jobs)}")


def _in_phases(elements: Collection[Job]) -> str:
    """Return the elements of an array by phase: "17_[0-7] RUNNING, 17_[8-49] PENDING"."""
    by_phase = {phase: [job for job in elements if job.phase is phase] for phase in Phase}
    return ", ".join(f"{_in_short(jobs)} {phase}" for phase, jobs in by_phase.items() if jobs)


def _in_short(elements: Sequence[Job]) -> str:
    return in_short(str(elements[0].array_id), [job.array_index or 0 for job in elements])


def _several(ids: Sequence[str]) -> Mapping[str, tuple[str, tuple[str, ...] | None]]:
    """Return the array and the element ids of each id that names an array; None stands for all elements. Other ids are
    left out.
    """
    several = {}
    count = 0
    for job_id in ids:
        named = named_elements(job_id)
        if named is None or job_id in several:
            continue
        array_id, indices = named
        several[job_id] = array_id, None if indices is None else tuple(f"{array_id}_{index}" for index in indices)
        count += len(indices or ())
        if count > MAX_ARRAY_SIZE:
            raise Refused(f"ids: these name more than {MAX_ARRAY_SIZE:,} elements; name whole arrays", field="ids")
    return several


def _elements(
    ledger: Ledger, job_id: str, array_id: str, elements: Sequence[str], known: Mapping[str, Job]
) -> tuple[Job, ...]:
    """Return these elements, () if the array does not exist. Raises NotFound if the array lacks one of them."""
    missing = [element for element in elements if element not in known]
    if not missing:
        return tuple(known[element] for element in elements)
    array = ledger.find_array(array_id)
    if not array:
        return ()
    lacking = in_short(array_id, [int(element.rpartition("_")[2]) for element in missing])
    raise NotFound(f"{job_id}: array {array_id} has no {lacking}; its elements are {_in_short(array)}")
