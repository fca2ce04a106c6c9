"""From what a client sends to jobs that the ledger can hold: checked, completed, numbered."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from corral.access.caller import Caller
from corral.control.site_rules import refuse_full
from corral.control.transitions import follow_no_more, unmet
from corral.model.errors import Refused
from corral.model.fact import Fact, JobSubmitted
from corral.model.job import Job, JobKind, JobSpec, ProcessIdentity
from corral.model.queue import Limits
from corral.model.submission import Submission
from corral.model.view import View
from corral.ports import Decided

_INTERPRETER = re.compile(r"python[\d.]*|pypy[\d.]*|bash|sh|zsh|node|perl|ruby|Rscript|julia")


def spec_of(submission: Submission, caller: Caller, limits: Limits, owner: ProcessIdentity | None) -> JobSpec:
    """The specification that the ledger keeps: the submission, who asked for it, and the site's defaults."""
    submission = completed(submission, limits)
    assert submission.priority is not None, "it is completed"
    assert submission.retries is not None, "it is completed"
    fallback = program_of(submission.command) if submission.command else submission.kind.value
    return JobSpec(
        user=caller.user,
        command=submission.command,
        name=submission.name or fallback,
        kind=submission.kind,
        request=submission.request,
        priority=submission.priority,
        queue=submission.queue,
        project=submission.project,
        time_limit_s=submission.time_limit_s,
        retries=submission.retries,
        after=submission.after,
        begin_at=submission.begin_at,
        env=_shared(tuple(sorted(submission.env.items()))),
        workdir=submission.workdir,
        umask=submission.umask,
        uid=caller.uid,
        gid=caller.gid,
        groups=caller.groups,
        rlimits=submission.rlimits,
        checkpoint_signal=submission.checkpoint_signal,
        checkpoint_grace_s=submission.checkpoint_grace_s,
        owner=owner,
        speeds=submission.speeds,
    )


def completed(submission: Submission, limits: Limits) -> Submission:
    """The submission with what it leaves to the site: priority, retries, and the longest time limit."""
    runs = submission.kind is JobKind.RUN
    retries = limits.default_retries if submission.retries is None else submission.retries
    longest_s = None if submission.kind is JobKind.ADOPT else limits.max_time_limit_s
    return replace(
        submission,
        priority=limits.default_priority if submission.priority is None else submission.priority,
        retries=retries if runs else 0,
        time_limit_s=longest_s if submission.time_limit_s is None else submission.time_limit_s,
    )


def program_of(command: Sequence[str]) -> str:
    """What a command is about: its program, or the script or module that an interpreter is given."""
    program = os.path.basename(command[0])
    if _INTERPRETER.fullmatch(program) is None:
        return program
    for at, word in enumerate(command[1:], start=1):
        if word in ("-c", "-e"):
            break
        if word == "-m" or not word.startswith("-"):
            named = command[at + 1 : at + 2] if word == "-m" else [os.path.basename(word)]
            return "".join(named) or program
    return program


@lru_cache(maxsize=1000)
def _shared(env: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """One copy of an environment for all jobs that come with it: ten thousand of a shell's would take 150 MB."""
    return env


def ids_needed(submission: Submission) -> int:
    """How many numbers the submission takes: one, and for an array one more for each element."""
    return 1 if submission.array is None else 1 + len(submission.array.indices)


def jobs_of(submission: Submission, spec: JobSpec, ids: Sequence[str], now: float) -> tuple[Job, ...]:
    """The jobs of a submission. The first id is the job's or the array's; each element takes a number of its own."""
    begin_at = spec.begin_at if spec.begin_at is not None and spec.begin_at > now else None
    if submission.array is None:
        return (Job(ids[0], int(ids[0]), spec, now, held=submission.held, eligible_at=begin_at),)
    return tuple(
        Job(
            f"{ids[0]}_{index}",
            int(number),
            spec,
            now,
            held=submission.held,
            eligible_at=begin_at,
            array_id=ids[0],
            array_index=index,
            array_limit=submission.array.limit,
        )
        for index, number in zip(submission.array.indices, ids[1:], strict=True)
    )


def admit(view: View, jobs: Sequence[Job], find: Callable[[str], tuple[Job, ...]], at: float) -> Decided[None]:
    """The facts of accepting `jobs` whole. `find` gives the jobs that an id names: one, or an array's elements.

    A job that is to follow one that can no longer succeed is cancelled at once: its fate must not hang on whether its
    parent failed a moment before or after. Raises Refused for an unknown parent or a full queue.
    """
    refuse_full(view, jobs)
    waits: dict[tuple[str, ...], tuple[tuple[str, ...], Job | None]] = {}
    facts: list[Fact] = []
    for job in jobs:
        after = job.spec.after
        if after not in waits:
            waits[after] = still_to_follow(view, after, find)
        waits_for, hopeless = waits[after]
        facts.append(JobSubmitted(replace(job, waits_for=waits_for) if waits_for else job, at))
        if hopeless is not None:
            facts.append(follow_no_more(job, hopeless, hopeless.phase, at))
    return Decided(tuple(facts), None)


def still_to_follow(
    view: View, after: tuple[str, ...], find: Callable[[str], tuple[Job, ...]]
) -> tuple[tuple[str, ...], Job | None]:
    """Of the jobs and arrays in `after`: the ids still to succeed, and the first that never will.

    `find` is as for `admit`. Raises Refused for an unknown one.
    """
    return unmet(_parents(view, after, find))


def _parents(view: View, after: tuple[str, ...], find: Callable[[str], tuple[Job, ...]]) -> list[Job]:
    parents: list[Job] = []
    for parent_id in after:
        found = (view.jobs[parent_id],) if parent_id in view.jobs else find(parent_id)
        if not found:
            raise Refused(f"--after {parent_id}: there is no job {parent_id}", field="after")
        parents.extend(view.jobs.get(parent.id, parent) for parent in found)
    return parents
