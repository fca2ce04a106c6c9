"""Updates jobs that have not ended: their priority, time limit, name and queue."""

from collections.abc import Callable, Sequence
from functools import partial

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import may_change, may_give_time
from corral.core.control.changing.commit_slices import cut_short, slices
from corral.core.control.changing.named_jobs import as_it_is, named_jobs, no_such_job
from corral.core.control.submitting.priorities import refuse_priority
from corral.core.control.submitting.site_rules import LeastUse, obey, refuse_move
from corral.core.control.submitting.submission_checks import check_checkpoint, check_time_limit, check_word
from corral.core.lifecycle.updating import may_go_on, update
from corral.core.model.errors import Conflict, CorralError, Refused
from corral.core.model.fact import JobUpdated
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_update import JobUpdate, sentence
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.declared.field_limits import check_ranges


class JobUpdates:
    """Updates a job, or the elements of an array that have not ended. Thread-safe.

    `tell` writes a line into the log of a started job. `time_limit_changed` is called with each allocation whose nodes
    need the new time limit.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        tell: Callable[[str, str], None],
        time_limit_changed: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._tell = tell
        self._time_limit_changed = time_limit_changed
        self._least_of = LeastUse()

    def update(self, job_id: str, asked: JobUpdate, caller: Caller) -> tuple[str, ...]:
        """Give the job these values, or change nothing. Return the ids of the jobs that have the values now.

        A very large array is changed in several commits, after all its elements were checked. Raises NotFound, Refused,
        Forbidden, and Conflict if the job has ended or its state does not allow the change. If an error occurs after
        the first commit, the message says how many jobs were changed.
        """
        check_update(asked)
        named = named_jobs(self._ledger, (job_id,))[job_id]
        if not named:
            raise no_such_job(job_id)
        may_change(caller, named[0])
        whole_array = named[0].id != job_id

        parts = list(slices(named))
        if len(parts) > 1:
            self._decide(named, whole_array, asked, caller, self._ledger.view())
        touched: tuple[str, ...] = ()
        for part in parts:
            try:
                decide = partial(self._decide, part, whole_array, asked, caller)
                changed, facts = self._ledger.commit(decide, user=caller.user, jobs=len(part)).result()
            except CorralError as error:
                raise (cut_short(error, len(touched), len(named)) if touched else error) from error
            self._act(facts, caller)
            touched += changed
        if not touched:
            raise Conflict(f"array {job_id}: every element has ended; there is nothing left to change")
        return touched

    def _decide(
        self, named: Sequence[Job], whole_array: bool, asked: JobUpdate, caller: Caller, view: View
    ) -> Decided[tuple[tuple[str, ...], tuple[JobUpdated, ...]]]:
        """Return the facts, and the ids of the jobs that have the new values."""
        jobs = [as_it_is(self._ledger, view, found) for found in named]
        if whole_array:
            jobs = [job for job in jobs if may_go_on(job)]
        facts = self._facts(view, jobs, asked, caller)
        return Decided(facts, (tuple(job.id for job in jobs), facts))

    def _facts(self, view: View, jobs: Sequence[Job], asked: JobUpdate, caller: Caller) -> tuple[JobUpdated, ...]:
        at = self._clock.now()
        facts = tuple(fact for job in jobs for fact in update(job, asked, by=caller.user, at=at))
        changed = {fact.job_id: fact.changes for fact in facts}
        moved = []
        for job in jobs:
            changes = changed.get(job.id, {})
            if "priority" in changes:
                refuse_priority(view.limits, asked.priority, caller, whose=f" of job {job.id}")
            if "time_limit_s" in changes and asked.time_limit_s is not None:
                may_give_time(caller, job, asked.time_limit_s, view.limits.max_time_limit_s)
                if job.phase is Phase.PENDING:
                    spec = job.spec
                    check_checkpoint(spec.checkpoint_signal, spec.checkpoint_grace_s, asked.time_limit_s)
            if "queue" in changes:
                moved.append(job)
        if moved and asked.queue is not None:
            self._refuse_queue(view, moved, asked.queue)
        return facts

    def _refuse_queue(self, view: View, jobs: Sequence[Job], queue: str) -> None:
        """Raise Refused for a queue in which these jobs could never start, or that is full."""
        for spec in dict.fromkeys((job.spec.user, job.spec.project, job.spec.kind, job.spec.request) for job in jobs):
            user, project, kind, request = spec
            obey(view, Submission(kind=kind, request=request, queue=queue, project=project), user, self._least_of)
        refuse_move(view, jobs, queue)

    def _act(self, facts: Sequence[JobUpdated], caller: Caller) -> None:
        """Write to the logs of started jobs, and inform their nodes of a new time limit."""
        jobs = self._ledger.view().jobs
        for fact in facts:
            job = jobs.get(fact.job_id)
            if job is None or job.allocation_id is None:
                continue
            if "notes" not in fact.changes:
                self._tell(job.id, sentence(fact.before, fact.changes, caller.user))
            if "time_limit_s" in fact.changes:
                self._time_limit_changed(job.allocation_id)


def check_update(asked: JobUpdate) -> None:
    """Raise Refused for an empty update, and for values that no job can have."""
    if asked == JobUpdate():
        raise Refused("nothing to change; give at least one of priority, time_limit_s, name and queue")
    check_ranges(asked)
    if asked.time_limit_s is not None:
        check_time_limit(asked.time_limit_s)
    for field, word in (("name", asked.name), ("queue", asked.queue)):
        if word is not None:
            check_word(word, field)
            if not word:
                raise Refused(f"{field}: it is empty; leave it out to keep what it is", field=field)
