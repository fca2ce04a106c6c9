"""What a job waits for of other jobs, and what their starts and ends make of that.

A dependency is written as the job that must succeed ("17"), or with a condition: "any:17" (it has ended), "notok:17"
(it has not ended well), "start:17" (it has started or ended), "corr:17" (the element of array 17 with the same index
has succeeded), "singleton" (no earlier job of the same name and user is left). Alternatives are joined by question
marks: "17?any:18". An array is meant as a whole: its elements have all succeeded, ended, or started.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase


class Condition(StrEnum):
    """What has to have become of a job, by its word in a dependency."""

    OK = "ok"
    ANY = "any"
    NOT_OK = "notok"
    START = "start"
    CORR = "corr"
    SINGLETON = "singleton"


class Dependency(NamedTuple):
    """A condition of one job or array; `job_id` is empty for a singleton."""

    condition: Condition
    job_id: str = ""

    def __str__(self) -> str:
        if self.condition is Condition.SINGLETON:
            return self.condition.value
        return self.job_id if self.condition is Condition.OK else f"{self.condition.value}:{self.job_id}"


Clause = tuple[Dependency, ...]
"""Alternatives, of which one has to hold."""

_SUCCESS = frozenset({Condition.OK, Condition.CORR})
_ENDS = frozenset({Condition.OK, Condition.CORR, Condition.ANY, Condition.SINGLETON})


@lru_cache(maxsize=1000)
def clauses_of(after: tuple[str, ...]) -> tuple[Clause, ...]:
    """The clauses that `after` writes, all of which have to hold. Raises Refused for what is no dependency."""
    return tuple(tuple(map(_dependency, text.split("?"))) for text in after)


def _dependency(text: str) -> Dependency:
    word, colon, job_id = text.strip().partition(":")
    if not colon and word == Condition.SINGLETON:
        return Dependency(Condition.SINGLETON)
    condition, job_id = (word, job_id) if colon else (Condition.OK.value, word)
    named = [one.value for one in Condition if one is not Condition.SINGLETON]
    if condition not in named:
        raise Refused(f"--after {text}: {condition!r} is not a condition; {nearest(condition, named)}", field="after")
    if not job_id or ":" in job_id or "," in job_id:
        wrong = "names several jobs in one" if job_id else "names no job"
        raise Refused(
            f"--after {text}: it {wrong}; write such as 17, any:17 or singleton, each job by itself", field="after"
        )
    return Dependency(Condition(condition), job_id)


def wait_for_ends_alone(clauses: tuple[Clause, ...]) -> bool:
    """Whether a job with these clauses goes on as soon as all that it waits for has ended, unless success was asked."""
    return all(len(clause) == 1 and clause[0].condition in _ENDS for clause in clauses)


def single(after: tuple[str, ...]) -> bool:
    """Whether no two jobs of the name and user are to run at once."""
    return any(term.condition is Condition.SINGLETON for clause in clauses_of(after) for term in clause)


def covers(term: Dependency, job: Job, parent: Job) -> bool:
    """Whether the dependency of `job` speaks of `parent`."""
    if term.condition is Condition.SINGLETON:
        alike = (parent.spec.user, parent.spec.name) == (job.spec.user, job.spec.name)
        return alike and (job.array_id is None or parent.array_id != job.array_id)
    if term.condition is Condition.CORR:
        return parent.array_id == term.job_id and parent.array_index == job.array_index
    return term.job_id in (parent.id, parent.array_id)


@dataclass(frozen=True, slots=True)
class Settled:
    """What is left of a job's clauses once it is known how its parents stand.

    Attributes:
        waits_for: ids of the jobs that it still depends on; () lets it go, unless it is hopeless.
        left: the clauses that are not met yet, without the alternatives that are lost.
        lost: the dependency that can no longer hold and without which nothing does, and the job that decided it.
    """

    waits_for: tuple[str, ...] = ()
    left: tuple[Clause, ...] = ()
    lost: tuple[Dependency, Job] | None = None


def settle(clauses: tuple[Clause, ...], parents_of: Callable[[Dependency], Sequence[Job]]) -> Settled:
    """How clauses stand; `parents_of` gives the jobs of a dependency that have ended just now or not yet."""
    waits_for: dict[str, None] = {}
    left: list[Clause] = []
    for clause in clauses:
        judged = [(term, parents, _judge(term, parents)) for term in clause for parents in [parents_of(term)]]
        if any(verdict is True for _, _, verdict in judged):
            continue
        open_ = [(term, parents) for term, parents, verdict in judged if verdict is None]
        if not open_:
            term, parents, _ = judged[-1]
            return Settled(lost=(term, _decider(term, parents)))
        for term, parents in open_:
            waits_for.update((parent.id, None) for parent in parents if _awaited(term, parent))
        left.append(tuple(_remembering(term, parents) for term, parents in open_))
    return Settled(tuple(waits_for), tuple(left))


def settled_by(job: Job, jobs: Iterable[Job]) -> Settled:
    """How the clauses of a waiting job stand, `jobs` being those that it waited for, as they are now."""
    known = tuple(jobs)
    clauses = clauses_of(job.conditions or job.spec.after)
    return settle(clauses, lambda term: [one for one in known if covers(term, job, one)])


def conditions_to_keep(settled: Settled, after: tuple[str, ...]) -> tuple[str, ...]:
    """What a job has to remember beside what it waits for; () where its clauses are enough."""
    clauses = clauses_of(after)
    if all(len(clause) == 1 and clause[0].condition is not Condition.NOT_OK for clause in clauses):
        return ()
    kept = tuple("?".join(map(str, clause)) for clause in settled.left)
    return () if kept == after else kept


def _judge(term: Dependency, parents: Sequence[Job]) -> bool | None:
    """Whether the dependency holds, or None while that is open."""
    badly = any(_ended_badly(parent) for parent in parents)
    if term.condition in _SUCCESS and badly:
        return False
    if any(_awaited(term, parent) for parent in parents):
        return None
    return badly if term.condition is Condition.NOT_OK else True


def _awaited(term: Dependency, parent: Job) -> bool:
    if term.condition is Condition.START and parent.phase in (Phase.RUNNING, Phase.STOPPING):
        return parent.started_at is None  # stopped before it ran
    return not parent.phase.terminal


def _ended_badly(parent: Job) -> bool:
    return parent.phase.terminal and parent.phase is not Phase.SUCCEEDED


def _remembering(term: Dependency, parents: Sequence[Job]) -> Dependency:
    """Once an element of an array has failed, that array will not have ended well: only its end is waited for."""
    if term.condition is Condition.NOT_OK and any(_ended_badly(parent) for parent in parents):
        return Dependency(Condition.ANY, term.job_id)
    return term


def _decider(term: Dependency, parents: Sequence[Job]) -> Job:
    if term.condition in _SUCCESS:
        return next(parent for parent in parents if _ended_badly(parent))
    return parents[-1]
