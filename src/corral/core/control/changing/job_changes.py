"""Cancel, hold, release or requeue jobs: one job, an array, or all jobs that a filter selects."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import may_change, may_release, must_be_admin
from corral.core.control.changing.commit_slices import cut_short, slices
from corral.core.control.changing.named_jobs import as_it_is, named_jobs, no_such_job
from corral.core.control.submitting.priorities import refuse_priority
from corral.core.lifecycle import commands
from corral.core.model.answers.job_changes import ChangedJobs, UnchangedJob
from corral.core.model.errors import Conflict, CorralError, Forbidden, LedgerFailed, Refused
from corral.core.model.fact import AllocationEnded, Fact, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_choice import LAST_SEQUENCE, MOST_AT_ONCE, OWN, JobChoice
from corral.core.model.jobs.job_filter import JobFilter
from corral.core.model.jobs.name_pattern import check_name_patterns
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View, ViewDraft
from corral.core.ports.ledger import Decided, JobQuery, Ledger

MAX_REASON = 200
"""The most characters of the reason for a cancellation."""


class Verb(StrEnum):
    """The operations on jobs."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"


def step(verb: Verb, view: View, job: Job, caller: Caller, at: float, *, reason: str = "") -> list[Fact]:
    """Return the facts of the operation on a job; `reason` is that of a cancellation.

    Raises Conflict if the job's phase does not allow it, Forbidden and Refused.
    """
    match verb:
        case Verb.CANCEL:
            said = f"cancelled by {caller.user}: {reason}" if reason else None
            return commands.cancel(view, job, by=caller.user, at=at, reason=said)
        case Verb.HOLD:
            return commands.hold(job, True, by=caller.user, at=at)
        case Verb.RELEASE:
            may_release(caller, job)
            return commands.release(view, job, by=caller.user, at=at)
        case Verb.REQUEUE:
            # The priority was allowed at submission, but the site may have narrowed its range since.
            refuse_priority(view.limits, job.spec.priority, caller, whose=f" of job {job.id}")
            return commands.requeue(view, job, by=caller.user, at=at)


def makes_sense(verb: Verb, job: Job) -> bool:
    """Return whether a filter without phases includes this job for the operation."""
    match verb:
        case Verb.CANCEL:
            return not job.phase.terminal and job.stop_reason is not Phase.CANCELLED
        case Verb.HOLD:
            return job.phase is Phase.PENDING and not job.held
        case Verb.RELEASE:
            return job.phase is Phase.PENDING and job.held
        case Verb.REQUEUE:
            return job.phase in (Phase.FAILED, Phase.LOST)


@dataclass(slots=True, eq=False)
class _Target:
    """Jobs that are changed together: the jobs that an id names, or a single job that a filter found."""

    id: str
    jobs: tuple[Job, ...]
    whole_array: bool = False
    found: bool = False
    error: CorralError | None = None
    touched: bool = False


_Step = tuple[_Target, Job]


@dataclass(slots=True)
class _Slice:
    """The results of one commit.

    Attributes:
        changed: the changed jobs, as they were before.
        refused: the targets that were not changed, and why.
        over: allocations that ended with it.
        cancelled: the ids of the jobs that it cancelled, including jobs that followed others.
    """

    changed: list[_Step] = field(default_factory=list)
    refused: list[tuple[_Target, CorralError]] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Change:
    """One request: the operation, the caller, the filter for jobs, and the reason that the caller gives."""

    verb: Verb
    caller: Caller
    chosen: JobFilter = field(default_factory=JobFilter)
    reason: str = ""

    def means(self, job: Job) -> bool:
        """Return whether the filter selects the job."""
        return self.chosen.has(job) and (bool(self.chosen.phases) or makes_sense(self.verb, job))


def _out_of_reach(view: View, stopped: Sequence[Job]) -> tuple[str, ...]:
    """Return a note for each node that does not answer and has some of these jobs, which therefore run on there."""
    there: dict[str, list[str]] = {}
    for job in stopped:
        allocation = view.allocations.get(job.allocation_id or "")
        for node in {} if allocation is None else dict.fromkeys(one.node for one in allocation.placement.members):
            if node in view.silences:
                there.setdefault(node, []).append(job.id)
    return tuple(
        f"node {node} does not answer: what {f'job {ids[0]} has' if len(ids) == 1 else f'{len(ids)} jobs have'} "
        "there ends when it is back"
        for node, ids in there.items()
    )


class JobChanges:
    """Changes jobs for callers. Thread-safe. `stop` ends the work of an allocation whose job is STOPPING or over."""

    def __init__(self, ledger: Ledger, clock: Clock, stop: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stop = stop

    def one(self, verb: Verb, job_id: str, caller: Caller, reason: str = "") -> tuple[str, ...]:
        """Change a job, or the elements of an array whose phase allows it. Return the ids of the changed jobs.

        `reason` is that of a cancellation. Raises NotFound, Forbidden, Conflict, and Refused.
        """
        if len(reason) > MAX_REASON:
            raise Refused(f"reason has {len(reason):,} characters; at most {MAX_REASON} are allowed", field="reason")
        changed, unchanged = self._commit(_Change(verb, caller, reason=reason), self._named((job_id,), caller))
        for _, error in unchanged:
            raise error
        return tuple(job.id for job in changed)

    def many(self, verb: Verb, choice: JobChoice, caller: Caller) -> ChangedJobs:
        """Change the selected jobs, newest first, at most MOST_AT_ONCE. One commit changes up to JOBS_IN_A_COMMIT jobs.

        More jobs take several commits. If one of these fails, the answer says which jobs are unchanged. It gives a
        reason for each unchanged job. Raises Refused, and Forbidden if a user selects jobs of another user.
        """
        chosen = choice.of_user(self._user(verb, choice, caller))
        change, below = _Change(verb, caller, chosen), None
        if choice.ids:
            named = self._named(choice.ids, caller)
            targets = [_narrowed(target, chosen) for target in named] if choice.narrows else named
        else:
            # The order matters: a job that ends in between is then in both results, and never in neither.
            active = self._ledger.view().jobs
            targets, below = _found(change, active.values(), *self._ended(change))
        if choice.dry_run:
            changed, unchanged = self._foretold(change, targets)
        else:
            changed, unchanged = self._commit(change, targets)
        return ChangedJobs(
            tuple(job.id for job in changed),
            tuple(UnchangedJob(job_id, str(error)) for job_id, error in unchanged),
            users=tuple(dict.fromkeys(job.spec.user for job in changed)),
            phases=Counter(job.phase.value for job in changed),
            next=below,
            notes=() if choice.dry_run else _out_of_reach(self._ledger.view(), changed),
        )

    @staticmethod
    def _user(verb: Verb, choice: JobChoice, caller: Caller) -> str | None:
        """Return the user whose jobs are selected, None if the choice names none. Raises Refused for an empty or
        invalid choice, and Forbidden.
        """
        if not choice.ids and not choice.narrows:
            raise Refused(f"name jobs to {verb}, or select them by user, name, array or phase", field="ids")
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
        """Return a target for each id. An element that is named more than once counts once: under its own id if that is
        given.
        """
        targets = []
        found = named_jobs(self._ledger, ids)
        seen = set(found)
        for job_id, named in found.items():
            whole_array = not named or named[0].id != job_id
            rest = tuple(job for job in named if job.id not in seen) if whole_array else named
            seen.update(job.id for job in rest)
            target = _Target(job_id, rest, whole_array)
            try:
                if not named:
                    raise no_such_job(job_id)
                may_change(caller, named[0])
            except CorralError as error:
                target.error = error
            targets.append(target)
        return targets

    def _ended(self, change: _Change) -> tuple[tuple[Job, ...], int | None]:
        """Return ended jobs that the filter may select, and the sequence number below which there are more (None if
        none).
        """
        phases = tuple(phase for phase in change.chosen.phases or (Phase.FAILED, Phase.LOST) if phase.terminal)
        if change.verb is not Verb.REQUEUE or not phases:
            return (), None
        page = self._ledger.jobs(JobQuery(**{**asdict(change.chosen), "phases": phases}, limit=MOST_AT_ONCE))
        return page, page[-1].sequence if len(page) == MOST_AT_ONCE else None

    def _commit(self, change: _Change, targets: Sequence[_Target]) -> tuple[list[Job], list[tuple[str, CorralError]]]:
        """Change the jobs of all targets, slice by slice. Return the changed jobs as they were before, and the
        unchanged ids with errors.
        """
        steps, changed, looked_at = _steps(targets), list[Job](), 0
        gone: set[str] = set()
        for part in slices(steps):
            try:
                decide = partial(self._decide, change, part, frozenset(gone))
                done = self._ledger.commit(decide, user=change.caller.user, jobs=len(part)).result()
            except LedgerFailed as error:
                if not changed:
                    raise
                cut = cut_short(error, len(changed), len(steps))
                for target, _ in steps[looked_at:]:
                    target.error = cut
                break
            looked_at += len(part)
            gone |= done.cancelled
            _note(done)
            changed += [job for _, job in done.changed]
            self._stop_all(done)
        return changed, _unchanged(targets)

    def _foretold(self, change: _Change, targets: Sequence[_Target]) -> tuple[list[Job], list[tuple[str, CorralError]]]:
        """Return the result that `_commit` would have now, without a change."""
        would = self._decide(change, _steps(targets), frozenset(), self._ledger.view()).value
        _note(would)
        return [job for _, job in would.changed], _unchanged(targets)

    def _stop_all(self, done: _Slice) -> None:
        jobs = self._ledger.view().jobs
        stopping = (jobs[job.id] for _, job in done.changed if job.id in jobs)
        for allocation_id in [*done.over, *(job.allocation_id for job in stopping if job.phase is Phase.STOPPING)]:
            if allocation_id is not None:
                self._stop(allocation_id)

    def _decide(self, change: _Change, steps: Sequence[_Step], gone: frozenset[str], view: View) -> Decided[_Slice]:
        """Return the facts of these steps. Each step sees the facts of the steps before it.

        So a job that follows two others is decided once. `gone` are the ids of jobs that earlier commits of the request
        cancelled.
        """
        at, draft, done = self._clock.now(), ViewDraft(view), _Slice()
        facts: list[Fact] = []
        for target, found in steps:
            before = as_it_is(self._ledger, view, found)
            job = draft.view.jobs.get(found.id) or before
            followed = found.id in gone or not before.phase.terminal
            if change.verb is Verb.CANCEL and job.phase is Phase.CANCELLED and followed:
                done.changed.append((target, found if before.phase.terminal else before))
                continue
            if target.found and not change.means(job):
                continue
            try:
                taken = step(change.verb, draft.view, job, change.caller, at, reason=change.reason)
            except (Conflict, Forbidden, Refused) as refusal:
                done.refused.append((target, refusal))
                continue
            draft.apply(taken)
            facts += taken
            done.changed.append((target, before))
        done.over = [fact.allocation_id for fact in facts if isinstance(fact, AllocationEnded)]
        done.cancelled = {fact.job_id for fact in facts if isinstance(fact, JobChanged) and _cancels(fact)}
        return Decided(tuple(facts), done)


def _cancels(fact: JobChanged) -> bool:
    return fact.changes.get("phase") is Phase.CANCELLED


def _steps(targets: Sequence[_Target]) -> list[_Step]:
    return [(target, job) for target in targets if target.error is None for job in target.jobs]


def _note(done: _Slice) -> None:
    """Mark the targets of changed jobs as touched, and store each refusal as the error of its target."""
    for target, _ in done.changed:
        target.touched = True
    for target, error in done.refused:
        target.error = error


def _unchanged(targets: Sequence[_Target]) -> list[tuple[str, CorralError]]:
    """Return the ids that were not changed, with errors. An array counts as changed if any of its elements was."""
    found = []
    for target in targets:
        error = target.error
        if target.whole_array and target.jobs and isinstance(error, Conflict):
            error = None if target.touched else Conflict(_nothing(target.id))
        if error is not None:
            found.append((target.id, error))
    return found


def _nothing(array_id: str) -> str:
    return f"array {array_id}: no element is in a phase that allows this; nothing was changed"


def _narrowed(target: _Target, chosen: JobFilter) -> _Target:
    """Restrict the jobs of a target to those that the filter selects."""
    if target.jobs and target.error is None:
        target.jobs = tuple(job for job in target.jobs if chosen.has(job))
        if not target.jobs:
            target.error = Conflict(f"{target.id} is not among the jobs of this user, name, array or state")
    return target


def _found(
    change: _Change, active: Collection[Job], past: tuple[Job, ...], below: int | None
) -> tuple[list[_Target], int | None]:
    """Return targets for the newest selected jobs among `active` and `past`, and the sequence number below which there
    are more.
    """
    jobs = {job.id: job for job in past if below is None or job.sequence >= below}
    jobs |= {job.id: job for job in active if below is None or job.sequence >= below}
    found = [job for job in jobs.values() if change.means(job)]
    found.sort(key=lambda job: -job.sequence)
    if len(found) > MOST_AT_ONCE:
        found = found[:MOST_AT_ONCE]
        below = found[-1].sequence
    return [_Target(job.id, (job,), found=True) for job in found], below
