"""Turns a checked submission into jobs: completed with the site's defaults, and numbered."""

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

from corral.core.access.caller import Caller
from corral.core.control.changing.named_jobs import no_such_job
from corral.core.control.submitting.site_rules import refuse_full
from corral.core.control.submitting.sweeps import element_specs
from corral.core.lifecycle.following import follow_no_more
from corral.core.lifecycle.user_faults import why_held
from corral.core.model.errors import Refused
from corral.core.model.fact import Fact, JobSubmitted
from corral.core.model.jobs import script_copy
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.dependency import (
    Condition,
    Dependency,
    Settled,
    clauses_of,
    conditions_to_keep,
    covers,
    settle,
    single,
)
from corral.core.model.jobs.job import Job, JobKind, JobSpec, JobTerms, ProcessIdentity
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Limits
from corral.core.model.view import View
from corral.core.ports.ledger import Decided

_MOST_KEPT = 64 * 1024
"""The largest environment, in characters, that is cached for later jobs."""

_TERMS = tuple(one.name for one in fields(JobTerms))

_INTERPRETER = re.compile(r"python[\d.]*|pypy[\d.]*|bash|sh|zsh|node|perl|ruby|Rscript|julia")


def spec_of(submission: Submission, caller: Caller, limits: Limits, owner: ProcessIdentity | None) -> JobSpec:
    """Return the specification that the ledger stores: the submission, its user, and the site's defaults."""
    settled = _settled(submission, limits)
    terms: dict[str, Any] = {name: getattr(submission, name) for name in _TERMS}
    terms["name"] = submission.name or (called(submission) if submission.command else submission.kind.value)
    terms["time_limit_s"], terms["checkpoint_every_s"] = settled.time_limit_s, settled.checkpoint_every_s
    terms["request"] = replace(submission.request, avoided=()) if submission.request.avoided else submission.request
    terms["notify_on"] = tuple(dict.fromkeys(submission.notify_on))
    return JobSpec(
        user=caller.user,
        command=submission.command,
        priority=settled.priority,
        retries=settled.retries,
        env=_shared(_environment(submission)),
        uid=caller.uid,
        gid=caller.gid,
        groups=caller.groups,
        owner=owner,
        **terms,
    )


def completed(submission: Submission, limits: Limits) -> Submission:
    """Return the submission with the site's defaults for missing values: priority, retries, time limit and interval of
    checkpoints.
    """
    return replace(submission, **_settled(submission, limits)._asdict())


class _Settled(NamedTuple):
    """The values for which the site has defaults."""

    priority: int
    retries: int
    time_limit_s: float | None
    checkpoint_every_s: float | None


def _settled(submission: Submission, limits: Limits) -> _Settled:
    runs = submission.kind is JobKind.RUN
    retries = limits.default_retries if submission.retries is None else submission.retries
    longest_s = None if submission.kind is JobKind.ADOPT else limits.max_time_limit_s
    return _Settled(
        priority=limits.default_priority if submission.priority is None else submission.priority,
        retries=retries if runs else 0,
        time_limit_s=longest_s if submission.time_limit_s is None else submission.time_limit_s,
        checkpoint_every_s=_checkpoint_every_s(submission, limits),
    )


def _checkpoint_every_s(submission: Submission, limits: Limits) -> float | None:
    """Return the interval of the job's checkpoint signal: its own, or the site's for a signal that programs survive."""
    word = submission.checkpoint_signal
    if submission.checkpoint_every_s is not None or word is None or not CheckpointSignal.parse(word).repeats:
        return submission.checkpoint_every_s
    return limits.default_checkpoint_every_s


def called(submission: Submission) -> str:
    """Return a name for a submission without a name: its script, or the program of its command."""
    command, text = submission.command, submission.script_text
    if text is None:
        return program_of(command)
    return posixpath.basename(command[script_copy.place_of_script(command, text)])


def program_of(command: Sequence[str]) -> str:
    """Return a name for a command: its program, or the script or module that an interpreter runs."""
    program = posixpath.basename(command[0])
    if _INTERPRETER.fullmatch(program) is None:
        return program
    for at, word in enumerate(command[1:], start=1):
        if word in ("-c", "-e"):
            break
        if word == "-m" or not word.startswith("-"):
            named = command[at + 1 : at + 2] if word == "-m" else [posixpath.basename(word)]
            return "".join(named) or program
    return program


def _environment(submission: Submission) -> tuple[tuple[str, str], ...]:
    env = {name: value for name, value in submission.env.items() if name != script_copy.VARIABLE}
    if submission.script_text is not None:
        env[script_copy.VARIABLE] = submission.script_text
    return tuple(sorted(env.items()))


def _shared(env: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return one shared copy of equal environments: ten thousand copies of a shell's would take 150 MB.

    Larger environments are not cached: one may hold a script of 4 MiB, and a thousand of these would stay.
    """
    return _kept(env) if sum(len(name) + len(value) for name, value in env) <= _MOST_KEPT else env


@lru_cache(maxsize=1000)
def _kept(env: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return env


def ids_needed(submission: Submission) -> int:
    """Return the number of job numbers that the submission needs: one, and for an array one more per element."""
    if submission.sweep is not None:
        return 1 + submission.sweep.size
    return 1 if submission.array is None else 1 + len(submission.array.indices)


def jobs_needed(submission: Submission) -> int:
    """Return the number of jobs of the submission."""
    return max(1, ids_needed(submission) - 1)


def jobs_of(submission: Submission, spec: JobSpec, ids: Sequence[str], now: float) -> tuple[Job, ...]:
    """Return the jobs of a submission. The first id is that of the job or array; each element of an array has a number
    of its own.
    """
    begin_at = spec.begin_at if spec.begin_at is not None and spec.begin_at > now else None
    array, sweep = submission.elements, submission.sweep
    if array is None:
        return (Job(ids[0], int(ids[0]), spec, now, held=submission.held, eligible_at=begin_at),)
    specs = repeat(spec, len(array.indices)) if sweep is None else element_specs(spec, sweep)
    return tuple(
        Job(
            f"{ids[0]}_{index}",
            int(number),
            of_element,
            now,
            held=submission.held,
            eligible_at=begin_at,
            array_id=ids[0],
            array_index=index,
            array_limit=1 if single(spec.after) else array.limit,
        )
        for index, number, of_element in zip(array.indices, ids[1:], specs, strict=True)
    )


def admit(view: View, jobs: Sequence[Job], find: Callable[[str], tuple[Job, ...]], by: str, at: float) -> Decided[None]:
    """Return the facts that accept all of `jobs`. `find` returns the jobs of an id: one, or the elements of an array.

    The jobs of a user under whose jobs GPUs fall sick again and again are held. A job whose dependency can no longer be
    met is cancelled at once: it must not matter whether its parent failed just before or just after. Raises Refused
    for an unknown parent or a full queue.
    """
    refuse_full(view, jobs)
    because = why_held(view, by, at)
    if because is not None and jobs[0].spec.kind is JobKind.RUN:
        jobs = [replace(job, held=True, held_because=because) for job in jobs]
    settled: dict[object, Settled] = {}
    earlier: list[Job] = []
    facts: list[Fact] = []
    for job in jobs:
        after = job.spec.after
        if not after:
            facts.append(JobSubmitted(job, at=at, by=by))
            continue
        # Equal for all elements of an array, unless each follows another job.
        key = (
            after,
            job.array_id or job.id if single(after) else None,
            job.array_index if _by_element(after) else None,
        )
        if key not in settled:
            settled[key] = still_to_follow(view, job, find, earlier)
        stands = settled[key]
        kept = conditions_to_keep(stands, after)
        facts.append(JobSubmitted(replace(job, waits_for=stands.waits_for, conditions=kept), at=at, by=by))
        if stands.lost is not None:
            facts.append(follow_no_more(job, stands.lost, by=by, at=at))
        elif single(after):
            earlier.append(job)
    return Decided(tuple(facts), None)


def still_to_follow(
    view: View, job: Job, find: Callable[[str], tuple[Job, ...]], earlier: Sequence[Job] = ()
) -> Settled:
    """Return the present state of a new job's dependencies; `earlier` are those submitted before it in the same
    request.

    `find` is as for `admit`. Raises Refused for a dependency on a job that does not exist.
    """
    return settle(clauses_of(job.spec.after), lambda term: _parents(view, term, job, find, earlier))


def _by_element(after: tuple[str, ...]) -> bool:
    return any(term.condition is Condition.CORR for clause in clauses_of(after) for term in clause)


def _parents(
    view: View, term: Dependency, job: Job, find: Callable[[str], tuple[Job, ...]], earlier: Sequence[Job]
) -> list[Job]:
    if term.condition is Condition.SINGLETON:
        waiting = (*view.jobs.values(), *earlier)
        return [one for one in waiting if covers(term, job, one) and not one.phase.terminal]
    found = (view.jobs[term.job_id],) if term.job_id in view.jobs else find(term.job_id)
    if not found:
        raise Refused(f"--after {term}: {no_such_job(term.job_id)}", field="after")
    parents = [view.jobs.get(parent.id, parent) for parent in found]
    if term.condition is Condition.CORR:
        if job.array_index is None:
            raise Refused(
                f"--after {term}: this condition pairs array elements, but this job is not an array; add --array",
                field="after",
            )
        parents = [parent for parent in parents if covers(term, job, parent)]
        if not parents:
            raise Refused(f"--after {term}: job {term.job_id} has no element {job.array_index}", field="after")
    return parents
