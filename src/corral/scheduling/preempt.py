"""Who may be ended for whom: more urgent work where its queue preempts, and lent capacity where its owner wants it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from corral.model.job import Job
from corral.model.view import View
from corral.scheduling.admit import Admission, Scope, demand_of
from corral.scheduling.draft import Ask, Draft
from corral.scheduling.evict import Room, Running, room
from corral.scheduling.policy import Policy
from corral.scheduling.pools import Pools


@dataclass(frozen=True, slots=True)
class Preemption:
    """The rules for one cycle. `running` is asked only when a job has no place and may have somebody ended."""

    view: View
    policy_of: Mapping[str, Policy]
    admission: Admission
    running: Callable[[], list[Running]]
    pools: Pools

    def make_room(self, draft: Draft, job: Job, ask: Ask, now: float) -> Room | None:
        """Whom to end for the first job of its queue that has no place, and what it then has; None in most clusters."""
        preempts = self.preempts(job.spec.queue)
        reclaims = self._reclaims(job)
        lends = self.pools.lends_of(job)
        if not preempts and not reclaims and not lends:
            return None

        def reason(one: Running) -> str | None:
            policy = self.policy_of.get(one.job.spec.queue)
            held_s = now - one.allocation.created_at
            if policy is not None and held_s < policy.spared_s:
                return None
            if preempts and one.job.spec.priority > job.spec.priority:
                return f"job {job.id} has priority {job.spec.priority} and goes before {one.job.spec.priority}"
            if reclaims and self._borrows(one.job, job.spec.queue):
                return f"queue {job.spec.queue} takes back for job {job.id} what it had lent to {one.job.spec.queue}"
            pool = self.pools.borrowed(one.job, one.allocation, lends)
            if pool is not None:
                return f"pool {pool} takes back for job {job.id} what it had lent to {one.job.spec.user}"
            return None

        running = self.running()
        owners = {one.job.id for one in running if self.pools.owns_any(one.job, ask.lent)}
        found = room(draft, ask, running, lambda one: None if one.job.id in owners else reason(one), now)
        # An owner who is ended waits for what is lent, which the job then has not: it must do without.
        return room(draft, ask.firmly(), running, reason, now) if found is None and owners else found

    def foremost(self, heads: Mapping[str, Job]) -> list[str]:
        """The queues that no other goes before: whoever may have others ended for it has its turn before those others.

        Else what room was made for would go to whoever made it, who would be ended again, and so on for ever.
        """
        urgent = [heads[name].spec.priority for name in heads if self.preempts(name)]
        lenders = {self.view.queues[name].parent for name, job in heads.items() if self._reclaims(job)}
        return [
            name
            for name, job in heads.items()
            if not (urgent and min(urgent) < job.spec.priority)
            and not (self._parent(name) in lenders and not self._reclaims(job) and self._limited(name))
        ] or list(heads)

    def preempts(self, name: str) -> bool:
        """Whether the head of the queue may have less urgent jobs ended."""
        queue = self.view.queues.get(name)
        return queue is not None and queue.preempts

    def _parent(self, name: str) -> str | None:
        queue = self.view.queues.get(name)
        return None if queue is None else queue.parent

    def _limited(self, name: str) -> bool:
        return self.view.queues[name].quota.share_milli is not None

    def _reclaims(self, job: Job) -> bool:
        """Whether the job's queue only asks for what is its own, and others beside it stand above theirs."""
        queue = self.view.queues.get(job.spec.queue)
        if queue is None or queue.parent is None or queue.quota.share_milli is None:
            return False
        held = self.admission.held(Scope("queue", queue.name)).milli
        return held + demand_of(job).milli <= queue.quota.share_milli

    def _borrows(self, job: Job, lender: str) -> bool:
        """Whether the job's queue stands beside the lender and above its own quota."""
        queue = self.view.queues.get(job.spec.queue)
        if queue is None or queue.name == lender or queue.quota.share_milli is None:
            return False
        beside = queue.parent is not None and queue.parent == self.view.queues[lender].parent
        return beside and self.admission.held(Scope("queue", queue.name)).milli > queue.quota.share_milli
