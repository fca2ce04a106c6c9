"""Dependencies between jobs: the conditions on other jobs, and how their starts and ends settle these conditions.

A dependency is written as the job that must succeed ("17"), or with a condition: "any:17" (it has ended), "notok:17"
(it has ended without success), "start:17" (it has started or ended), "corr:17" (the element of array 17 with the same
index has succeeded), "singleton" (no earlier job of the same name and user is left). Alternatives are joined by
question marks: "17?any:18". An array counts as a whole: all its elements have succeeded, ended, or started.
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
    """The condition on a job, by its word in a dependency."""

    OK = "ok"
    ANY = "any"
    NOT_OK = "notok"
    START = "start"
    CORR = "corr"
    SINGLETON = "singleton"


class Dependency(NamedTuple):
    """A condition on one job or array; `job_id` is empty for a singleton."""

    condition: Condition
    job_id: str = ""

    def __str__(self) -> str:
        if self.condition is Condition.SINGLETON:
            return self.condition.value
        return self.job_id if self.condition is Condition.OK else f"{self.condition.value}:{self.job_id}"


Clause = tuple[Dependency, ...]
"""Alternative dependencies, one of which must hold."""

_SUCCESS = frozenset({Condition.OK, Condition.CORR})
_ENDS = frozenset({Condition.OK, Condition.CORR, Condition.ANY, Condition.SINGLETON})


@lru_cache(maxsize=1000)
def clauses_of(after: tuple[str, ...]) -> tuple[Clause, ...]:
    """The clauses in the texts of `after`; all must hold. Raises Refused for a text that is not a dependency."""
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
    """Whether the job's wait is over once all its parents have ended, unless it demands success of one."""
    return all(len(clause) == 1 and clause[0].condition in _ENDS for clause in clauses)


def single(after: tuple[str, ...]) -> bool:
    """Whether a dependency is "singleton": no two jobs of the same name and user run at once."""
    return any(term.condition is Condition.SINGLETON for clause in clauses_of(after) for term in clause)


def covers(term: Dependency, job: Job, parent: Job) -> bool:
    """Whether this dependency of `job` refers to `parent`."""
    if term.condition is Condition.SINGLETON:
        alike = (parent.spec.user, parent.spec.name) == (job.spec.user, job.spec.name)
        return alike and (job.array_id is None or parent.array_id != job.array_id)
    if term.condition is Condition.CORR:
        return parent.array_id == term.job_id and parent.array_index == job.array_index
    return term.job_id in (parent.id, parent.array_id)


@dataclass(frozen=True, slots=True)
class Settled:
    """The remaining clauses of a job, given the present state of its parents.

    Attributes:
        waits_for: ids of the jobs that it still depends on. With () its wait is over, unless a clause is lost.
        left: the clauses that do not hold yet, without alternatives that can never hold.
        lost: a dependency that can no longer hold and that has no alternative, and the job that decided it.
    """

    waits_for: tuple[str, ...] = ()
    left: tuple[Clause, ...] = ()
    lost: tuple[Dependency, Job] | None = None


def settle(clauses: tuple[Clause, ...], parents_of: Callable[[Dependency], Sequence[Job]]) -> Settled:
    """The state of these clauses. `parents_of` returns the jobs of a dependency that ended just now or not yet."""
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
    """The state of a waiting job's clauses. `jobs` are the jobs that it waited for, in their present state."""
    known = tuple(jobs)
    clauses = clauses_of(job.conditions or job.spec.after)
    return settle(clauses, lambda term: [one for one in known if covers(term, job, one)])


def conditions_to_keep(settled: Settled, after: tuple[str, ...]) -> tuple[str, ...]:
    """The conditions that a job must store in addition to `waits_for`; () if its clauses are enough."""
    clauses = clauses_of(after)
    if all(len(clause) == 1 and clause[0].condition is not Condition.NOT_OK for clause in clauses):
        return ()
    kept = tuple("?".join(map(str, clause)) for clause in settled.left)
    return () if kept == after else kept


def _judge(term: Dependency, parents: Sequence[Job]) -> bool | None:
    """Whether the dependency holds, None while that is undecided."""
    badly = any(_ended_badly(parent) for parent in parents)
    if term.condition in _SUCCESS and badly:
        return False
    if any(_awaited(term, parent) for parent in parents):
        return None
    return badly if term.condition is Condition.NOT_OK else True


def _awaited(term: Dependency, parent: Job) -> bool:
    if term.condition is Condition.START and parent.phase in (Phase.RUNNING, Phase.STOPPING):
        return parent.started_at is None  # it was stopped before it ran
    return not parent.phase.terminal


def _ended_badly(parent: Job) -> bool:
    return parent.phase.terminal and parent.phase is not Phase.SUCCEEDED


def _remembering(term: Dependency, parents: Sequence[Job]) -> Dependency:
    """The condition to store. Once an element of an array has failed, the array is "notok": only its end is awaited."""
    if term.condition is Condition.NOT_OK and any(_ended_badly(parent) for parent in parents):
        return Dependency(Condition.ANY, term.job_id)
    return term


def _decider(term: Dependency, parents: Sequence[Job]) -> Job:
    if term.condition in _SUCCESS:
        return next(parent for parent in parents if _ended_badly(parent))
    return parents[-1]
