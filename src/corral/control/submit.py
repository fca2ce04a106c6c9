"""From what a client sends to jobs that the ledger can hold: checked, completed, numbered."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from corral.control.caller import Caller
from corral.control.transitions import unmet
from corral.model.errors import Conflict, Refused
from corral.model.fact import Fact, JobSubmitted
from corral.model.job import Job, JobKind, JobSpec, ProcessIdentity
from corral.model.submission import Submission
from corral.model.units import MILLI_PER_DEVICE
from corral.model.view import View
from corral.ports import Decided

MAX_ARRAY_ELEMENTS = 100_000
MAX_NAME_LENGTH = 200
MAX_DEVICES = 100_000


@dataclass(frozen=True, slots=True)
class SubmitLimits:
    """The priority of those who name none, and how many jobs may be waiting or running at most (None: any number)."""

    default_priority: int = 5
    max_waiting: int | None = None


def check(submission: Submission) -> None:
    """Raises Refused for what no cluster could serve; what this one cannot serve is the planner's to say."""
    request = submission.request
    if submission.kind is JobKind.RUN and not submission.command:
        raise Refused(
            "there is no command to run; write it after --, such as: corral run -- python train.py", field="command"
        )
    _between(request.devices, 0, MAX_DEVICES, "gpus", "0 is a job without a GPU")
    _between(request.gang_size, 1, MAX_DEVICES, "gang_size", "1 is a job that is no gang")
    _between(request.share_milli, 1, MILLI_PER_DEVICE, "share_milli", "1000 is a whole device")
    _between(submission.retries, 0, 1000, "retries", "0 tries once")
    _between(len(submission.name), 0, MAX_NAME_LENGTH, "the length of name", "")
    if submission.kind is not JobKind.RUN and request.devices == 0:
        raise Refused("a reservation is of at least 1 GPU", field="gpus")
    if submission.time_limit_s is not None and not 0 < submission.time_limit_s < 1e10:
        raise Refused(
            f"time_limit_s: {submission.time_limit_s!r} is no time limit; it must be above 0", field="time_limit_s"
        )
    if submission.kind is JobKind.RUN and not os.path.isdir(submission.workdir):
        raise Refused(
            f"the working directory {submission.workdir!r} does not exist on this machine; name another with --workdir",
            field="workdir",
        )
    if submission.array is not None:
        _check_array(submission)


def _between(value: int, least: int, most: int, field: str, hint: str) -> None:
    if not least <= value <= most:
        raise Refused(
            f"{field} must be from {least} to {most}, not {value}" + (f" ({hint})" if hint else ""), field=field
        )


def _check_array(submission: Submission) -> None:
    array = submission.array
    assert array is not None
    _between(len(array.indices), 1, MAX_ARRAY_ELEMENTS, "the number of array elements", "")
    if len(set(array.indices)) != len(array.indices):
        raise Refused("array: an index is named twice; each element runs once", field="array")
    if array.limit is not None:
        _between(array.limit, 1, MAX_ARRAY_ELEMENTS, "the array's limit", "how many elements run at once")
    if min(array.indices) < 0:
        raise Refused(f"array: {min(array.indices)} is no index; indices are from 0", field="array")


def spec_of(submission: Submission, caller: Caller, limits: SubmitLimits, owner: ProcessIdentity | None) -> JobSpec:
    """The specification that the ledger keeps: the submission, who asked for it, and the site's defaults."""
    fallback = os.path.basename(submission.command[0]) if submission.command else submission.kind.value
    return JobSpec(
        user=caller.user,
        command=submission.command,
        name=submission.name or fallback,
        kind=submission.kind,
        request=submission.request,
        priority=limits.default_priority if submission.priority is None else submission.priority,
        queue=submission.queue,
        project=submission.project,
        time_limit_s=submission.time_limit_s,
        retries=submission.retries if submission.kind is JobKind.RUN else 0,
        after=submission.after,
        env=tuple(sorted(submission.env.items())),
        workdir=submission.workdir,
        umask=submission.umask,
        uid=caller.uid,
        gid=caller.gid,
        groups=caller.groups,
        rlimits=submission.rlimits,
        owner=owner,
    )


def ids_needed(submission: Submission) -> int:
    """How many numbers the submission takes: one, and for an array one more for each element."""
    return 1 if submission.array is None else 1 + len(submission.array.indices)


def jobs_of(submission: Submission, spec: JobSpec, ids: Sequence[str], now: float) -> tuple[Job, ...]:
    """The jobs of a submission. The first id is the job's or the array's; each element takes a number of its own."""
    if submission.array is None:
        return (Job(ids[0], int(ids[0]), spec, now, held=submission.held),)
    return tuple(
        Job(
            f"{ids[0]}_{index}",
            int(number),
            spec,
            now,
            held=submission.held,
            array_id=ids[0],
            array_index=index,
            array_limit=submission.array.limit,
        )
        for index, number in zip(submission.array.indices, ids[1:], strict=True)
    )


def admit(
    view: View, jobs: Sequence[Job], find: Callable[[str], tuple[Job, ...]], limits: SubmitLimits, at: float
) -> Decided[None]:
    """The facts of accepting `jobs` whole. `find` gives the jobs that an id names: one, or an array's elements.

    Raises Refused for an unknown parent or a full queue, Conflict when a parent can no longer succeed.
    """
    if limits.max_waiting is not None and len(view.jobs) + len(jobs) > limits.max_waiting:
        raise Refused(
            f"the queue is full: {len(view.jobs)} jobs are in it and the site allows {limits.max_waiting}; "
            "wait until some have ended, or cancel some"
        )
    waits: dict[tuple[str, ...], tuple[str, ...]] = {}
    facts: list[Fact] = []
    for job in jobs:
        after = job.spec.after
        if after not in waits:
            waits[after] = _parents_to_wait_for(view, after, find)
        facts.append(JobSubmitted(replace(job, waits_for=waits[after]), at))
    return Decided(tuple(facts), None)


def _parents_to_wait_for(view: View, after: tuple[str, ...], find: Callable[[str], tuple[Job, ...]]) -> tuple[str, ...]:
    parents: list[Job] = []
    for parent_id in after:
        found = (view.jobs[parent_id],) if parent_id in view.jobs else find(parent_id)
        if not found:
            raise Refused(f"--after {parent_id}: there is no job {parent_id}", field="after")
        parents.extend(view.jobs.get(parent.id, parent) for parent in found)
    waiting, hopeless = unmet(parents)
    if hopeless is not None:
        raise Conflict(f"--after {hopeless.id}: that job is {hopeless.phase} and will not succeed any more")
    return waiting
