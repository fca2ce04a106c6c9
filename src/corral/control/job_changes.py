"""Jobs are cancelled, put on hold, released or requeued: one, an array, or as many as are chosen, in one commit."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from corral.access.caller import Caller
from corral.access.permissions import may_change, must_be_admin
from corral.clock import Clock
from corral.control.named_jobs import as_it_is, named_jobs, no_such_job
from corral.control.submitting.priorities import refuse_priority
from corral.lifecycle import commands
from corral.model.answers.job_changes import ChangedJobs, UnchangedJob
from corral.model.errors import Conflict, CorralError, Refused
from corral.model.fact import AllocationEnded, Fact
from corral.model.job import Job, Phase
from corral.model.job_choice import OWN, JobChoice
from corral.model.name_pattern import check_name_patterns
from corral.model.view import View, ViewDraft
from corral.ports.ledger import Decided, JobQuery, Ledger

MOST_AT_ONCE = 10_000
"""So many jobs are changed in one commit; who asks for more asks again."""

LAST_SEQUENCE = 2**63 - 1


class Verb(StrEnum):
    """What is done to jobs."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"


def step(verb: Verb, view: View, job: Job, caller: Caller, at: float) -> list[Fact]:
    """The facts by which a job is changed. Raises Conflict where its phase does not allow that, and Refused."""
    match verb:
        case Verb.CANCEL:
            return commands.cancel(view, job, by=caller.user, at=at)
        case Verb.HOLD:
            return commands.hold(job, True, by=caller.user, at=at)
        case Verb.RELEASE:
            return commands.release(view, job, by=caller.user, at=at)
        case Verb.REQUEUE:
            # The priority was allowed at submission; the site may have narrowed its range since.
            refuse_priority(view.limits, job.spec.priority, caller, whose=f" of job {job.id}")
            return commands.requeue(view, job, by=caller.user, at=at)


def makes_sense(verb: Verb, job: Job) -> bool:
    """Whether who chooses jobs by what they are means this one, too, unless phases are given."""
    match verb:
        case Verb.CANCEL:
            return not job.phase.terminal and job.stop_reason is not Phase.CANCELLED
        case Verb.HOLD:
            return job.phase is Phase.PENDING and not job.held
        case Verb.RELEASE:
            return job.phase is Phase.PENDING and job.held
        case Verb.REQUEUE:
            return job.phase in (Phase.FAILED, Phase.LOST)


@dataclass(slots=True)
class _Target:
    """Jobs that are changed together: what an id names, or one of those that were found."""

    id: str
    jobs: tuple[Job, ...]
    whole_array: bool = False
    error: CorralError | None = None


@dataclass(slots=True)
class _Outcome:
    """What came of it: jobs as they were before they were changed, and what was not changed for which reason."""

    changed: list[Job] = field(default_factory=list)
    unchanged: list[tuple[str, CorralError]] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    next: int | None = None


class JobChanges:
    """Changes jobs for callers. Thread-safe. `stop` ends the work of an allocation whose job is STOPPING or over."""

    def __init__(self, ledger: Ledger, clock: Clock, stop: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stop = stop

    def one(self, verb: Verb, job_id: str, caller: Caller) -> tuple[str, ...]:
        """Change a job, or the elements of an array whose phase allows it; the ids of those that were changed.

        Raises NotFound, Forbidden, Conflict, and Refused.
        """
        outcome = self._commit(verb, lambda _: (self._named((job_id,), caller), None), caller)
        for _, error in outcome.unchanged:
            raise error
        return tuple(job.id for job in outcome.changed)

    def many(self, verb: Verb, choice: JobChoice, caller: Caller) -> ChangedJobs:
        """Change the jobs that are chosen, the newest first and MOST_AT_ONCE at most, all in one commit.

        What cannot be changed is told with its reason. Raises Refused, and Forbidden for jobs of others by their user.
        """
        user = self._user(verb, choice, caller)
        # One phase a hundred thousand times would be compared with each job so often.
        choice = replace(choice, phase=tuple(dict.fromkeys(choice.phase)))
        if choice.ids:
            named = [_chosen(target, choice, user) for target in self._named(choice.ids, caller)]
            outcome = self._commit(verb, lambda _: (named, None), caller, dry_run=choice.dry_run)
        else:
            ended = self._ended(verb, choice, user)
            outcome = self._commit(
                verb, lambda view: _found(verb, view, ended, choice, user), caller, dry_run=choice.dry_run
            )
        return ChangedJobs(
            tuple(job.id for job in outcome.changed),
            tuple(UnchangedJob(job_id, str(error)) for job_id, error in outcome.unchanged),
            users=tuple(dict.fromkeys(job.spec.user for job in outcome.changed)),
            phases=Counter(job.phase.value for job in outcome.changed),
            next=outcome.next,
        )

    @staticmethod
    def _user(verb: Verb, choice: JobChoice, caller: Caller) -> str | None:
        """Whose jobs are meant, None where that is not said. Raises Refused for a choice of nothing, and Forbidden."""
        if not choice.ids and not choice.narrows:
            raise Refused(f"name jobs to {verb}, or choose them by user, name, array or phase", field="ids")
        if len(choice.ids) > MOST_AT_ONCE:
            raise Refused(
                f"ids: one request can change {MOST_AT_ONCE:,} jobs at most, not {len(choice.ids):,}", field="ids"
            )
        if choice.name is not None:
            check_name_patterns(choice.name)
        if choice.before is not None and not 0 <= choice.before <= LAST_SEQUENCE:
            raise Refused(f"before must be from 0 to {LAST_SEQUENCE}, not {str(choice.before)[:40]}", field="before")
        if choice.user == OWN or (choice.user is None and not choice.ids):
            return caller.user
        if choice.user is not None and choice.user != caller.user:
            must_be_admin(caller, f"changing jobs of {choice.user}")
        return choice.user

    def _named(self, ids: Sequence[str], caller: Caller) -> list[_Target]:
        """What each id names; an element that is named besides its array counts once, as itself."""
        targets = []
        found = named_jobs(self._ledger, ids)
        for job_id, named in found.items():
            whole_array = not named or named[0].id != job_id
            rest = tuple(job for job in named if job.id not in found) if whole_array else named
            target = _Target(job_id, rest, whole_array)
            try:
                if not named:
                    raise no_such_job(job_id)
                may_change(caller, named[0])
            except CorralError as error:
                target.error = error
            targets.append(target)
        return targets

    def _ended(self, verb: Verb, choice: JobChoice, user: str | None) -> tuple[tuple[Job, ...], int | None]:
        """Jobs that have ended among which may be such as are chosen, and below which of them there are more."""
        phases = tuple(phase for phase in choice.phase or (Phase.FAILED, Phase.LOST) if phase.terminal)
        if verb is not Verb.REQUEUE or not phases:
            return (), None
        users = () if user is None else (user,)
        query = JobQuery(
            users, phases, choice.array, name=choice.name, limit=MOST_AT_ONCE, before_sequence=choice.before
        )
        page = self._ledger.jobs(query)
        return page, page[-1].sequence if len(page) == MOST_AT_ONCE else None

    def _commit(
        self,
        verb: Verb,
        targets_in: Callable[[View], tuple[Collection[_Target], int | None]],
        caller: Caller,
        *,
        dry_run: bool = False,
    ) -> _Outcome:
        def decide(view: View) -> Decided[_Outcome]:
            targets, below = targets_in(view)
            outcome = _Outcome(next=below)
            facts = self._decide(verb, view, targets, caller, outcome)
            outcome.over = [fact.allocation_id for fact in facts if isinstance(fact, AllocationEnded)]
            return Decided(tuple(facts), outcome)

        if dry_run:
            return decide(self._ledger.view()).value
        outcome = self._ledger.commit(decide).result()
        jobs = self._ledger.view().jobs
        stopping = (jobs[job.id] for job in outcome.changed if job.id in jobs)
        for allocation_id in [*outcome.over, *(job.allocation_id for job in stopping if job.phase is Phase.STOPPING)]:
            if allocation_id is not None:
                self._stop(allocation_id)
        return outcome

    def _decide(
        self, verb: Verb, view: View, targets: Collection[_Target], caller: Caller, outcome: _Outcome
    ) -> list[Fact]:
        """The facts of all steps. Each step sees the steps before it: a job that follows two is decided on once."""
        at, draft = self._clock.now(), ViewDraft(view)
        facts: list[Fact] = []
        for target in targets:
            error, changed = target.error, len(outcome.changed)
            for found in () if error is not None else target.jobs:
                before = as_it_is(self._ledger, view, found)
                job = draft.view.jobs.get(found.id) or before
                if job.phase is Phase.CANCELLED and not before.phase.terminal and verb is Verb.CANCEL:
                    # It followed one of those before it, and was cancelled with that.
                    outcome.changed.append(before)
                    continue
                try:
                    taken = step(verb, draft.view, job, caller, at)
                except (Conflict, Refused) as refusal:
                    error = refusal
                    continue
                draft.apply(taken)
                facts += taken
                outcome.changed.append(before)
            if target.whole_array and target.error is None and isinstance(error, Conflict):
                touched = len(outcome.changed) > changed
                error = None if touched else Conflict(_nothing(target.id))
            if error is not None:
                outcome.unchanged.append((target.id, error))
        return facts


def _nothing(array_id: str) -> str:
    return f"array {array_id}: no element is in a phase that allows this; nothing was changed"


def _chosen(target: _Target, choice: JobChoice, user: str | None) -> _Target:
    """Of what an id names, what is chosen besides."""
    if target.jobs and target.error is None and choice.narrows:
        target.jobs = tuple(job for job in target.jobs if choice.has(job, user))
        if not target.jobs:
            target.error = Conflict(f"{target.id} is not among the jobs of this user, name, array or state")
    return target


def _found(
    verb: Verb, view: View, ended: tuple[tuple[Job, ...], int | None], choice: JobChoice, user: str | None
) -> tuple[list[_Target], int | None]:
    """The newest jobs of the view, and of those that have ended, that are chosen, and below which there are more."""
    past, below = ended
    jobs = {job.id: job for job in past if below is None or job.sequence >= below}
    jobs |= {job.id: job for job in view.jobs.values() if below is None or job.sequence >= below}
    found = [job for job in jobs.values() if choice.has(job, user) and (bool(choice.phase) or makes_sense(verb, job))]
    found.sort(key=lambda job: -job.sequence)
    if len(found) > MOST_AT_ONCE:
        found = found[:MOST_AT_ONCE]
        below = found[-1].sequence
    return [_Target(job.id, (job,)) for job in found], below
