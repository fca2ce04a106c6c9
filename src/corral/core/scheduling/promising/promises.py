"""The promises of one cycle: promises of earlier cycles that still hold, and new ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Placement, Promise
from corral.core.model.placing.fit import HOST_CAUSES, Misfit
from corral.core.scheduling.policy import Backfill
from corral.core.scheduling.promising.backfill import promise, still_there
from corral.core.scheduling.queueing.admission import Admission, ineligible
from corral.core.scheduling.state.draft import Draft, PlacementRequest
from corral.core.scheduling.state.set_aside import BlockedJob
from corral.core.scheduling.state.timeline import SAME_MOMENT_S, Timeline
from corral.core.scheduling.turn import Turn


@dataclass(slots=True)
class Promises:
    """The capacity that is kept free for waiting jobs.

    Attributes:
        ends_soon: returns whether a running job is expected to end at about this moment.
        made: the promises that this cycle made, in order; `evicted_for` are those for which jobs are evicted.
        renewed: the ids of jobs with a promise of an earlier cycle whose turn has not come.
        first_blocked: for each queue, its first job that waits for room.
    """

    draft: Draft
    timeline: Timeline
    admission: Admission
    jobs: Mapping[str, Job]
    ends_soon: Callable[[], bool]
    made: list[Promise] = field(default_factory=list)
    evicted_for: list[Promise] = field(default_factory=list)
    renewed: set[str] = field(default_factory=set)
    first_blocked: dict[str, str] = field(default_factory=dict)
    _held: dict[str, tuple[Promise, float]] = field(default_factory=dict)
    _due: dict[str, Placement] = field(default_factory=dict)

    def renew(self, promises: Mapping[str, Promise], run_s: Callable[[Job], float]) -> None:
        """Keep the promises of earlier cycles, as long as their nodes and devices exist.

        A promise that is due counts against its quotas. Otherwise an evicted job could take the quota again.
        """
        now = self.timeline.now
        for job_id, promised in sorted(promises.items()):
            job = self.jobs.get(job_id)
            if job is not None and job.phase is Phase.STOPPING and self._nodes_exist(promised.placement):
                # It moves to this place as soon as it has stopped, and counts in its quotas where it still is.
                self._keep(promised, run_s(job))
            if job is None or job.phase is not Phase.PENDING:
                continue
            if ineligible(job, now) is None and self._nodes_exist(promised.placement):
                self.hold(replace(promised, start_at=now) if promised.start_at < now else promised, run_s(job))
                self.renewed.add(job_id)
                if promised.start_at <= now:
                    self.admission.started(job, promised.placement)
                    self._due[job_id] = promised.placement

    def hold(self, promised: Promise, duration_s: float) -> None:
        """Keep the promised capacity free."""
        self._held[promised.job_id] = (promised, duration_s)
        for member in promised.placement.members:
            self.timeline.promise(member, promised.start_at, promised.start_at + duration_s)

    def release_due(self, job_id: str) -> bool:
        """Whether the job's promise is due. If it is, the quota counted for the promise is released to the job."""
        placement = self._due.pop(job_id, None)
        if placement is not None:
            self.admission.started(self.jobs[job_id], placement, -1)
        return placement is not None

    def withdraw(self, job_id: str) -> Promise | None:
        """Withdraw and return the job's promise for the time of its turn: the job may now start sooner."""
        self.release_due(job_id)
        self.renewed.discard(job_id)
        promised, duration_s = self._held.pop(job_id, (None, 0.0))
        if promised is not None:
            for member in promised.placement.members:
                self.timeline.withdraw(member, promised.start_at, promised.start_at + duration_s)
        return promised

    def withdraw_less_urgent(self, job: Job) -> bool:
        """Withdraw the promises of earlier cycles to less urgent jobs. Return whether there were any.

        These jobs are promised another start when their turn comes.
        """
        made = {promised.job_id for promised in self.made}
        less_urgent = [
            one for one in self._held if one not in made and self.jobs[one].spec.priority > job.spec.priority
        ]
        for job_id in less_urgent:
            self.withdraw(job_id)
        return bool(less_urgent)

    def is_due(self, wanted: PlacementRequest, promised: Promise) -> bool:
        """Whether the promised start is now and its devices are free."""
        return promised.start_at <= self.timeline.now and still_there(
            self.draft, wanted, promised.placement, self.draft.free
        )

    def ahead_of(self, queue: str) -> str | None:
        """The job for which free devices are kept, as named to the jobs of this queue; None if there is none."""
        first = (self.first_blocked.get(queue), *self.first_blocked.values(), *self._held)
        return next((ahead for ahead in first if ahead is not None), None)

    def after_evictions(self, turn: Turn, placement: Placement) -> None:
        """Promise the job the place that evictions free, and count it in its quotas, to keep other jobs out."""
        self._keep(Promise(turn.job.id, placement, self.timeline.now), turn.run_s)
        self.admission.started(turn.job, placement)

    def after_move(self, job: Job, placement: Placement, run_s: float) -> None:
        """Promise a job that is stopped to move the place to which it moves. It counts in its quotas already."""
        self._keep(Promise(job.id, placement, self.timeline.now), run_s)

    def protect(self, turn: Turn, wanted: PlacementRequest, misfit: Misfit, earlier: Promise | None) -> Promise | None:
        """Keep the jobs behind this one from delaying it, by the backfill of its queue. Return its promise, if any.

        The job is promised the earliest start, or all that it could use is set aside for it.
        """
        backfill = turn.policy.backfill
        if backfill is Backfill.CONSERVATIVE or (backfill is Backfill.EASY and turn.first):
            return self._promise(turn, wanted, misfit, earlier)
        if backfill is Backfill.EASY:
            self._hold_imminent(turn, wanted)
        elif backfill is Backfill.NONE:
            self.draft.aside.add(_blocked(turn, wanted, misfit))
        return None

    def _keep(self, promised: Promise, duration_s: float) -> None:
        """Make a promise that later cycles keep."""
        self._make(promised, duration_s)
        self.evicted_for.append(promised)

    def _make(self, promised: Promise, duration_s: float) -> None:
        self.hold(promised, duration_s)
        self.made.append(promised)

    def _promise(self, turn: Turn, wanted: PlacementRequest, misfit: Misfit, earlier: Promise | None) -> Promise | None:
        """Promise the earliest start, or set aside the best node if the start cannot be predicted.

        An earlier promise is kept if it is still possible and the search finds no earlier start. The search is greedy
        for each member of a gang, and may miss the earlier promise.
        """
        promised = promise(self.draft, self.timeline, turn.job.id, wanted, turn.run_s)
        if earlier is not None and (promised is None or promised.start_at > earlier.start_at):
            promised = earlier if self._still_possible(wanted, earlier, turn.run_s) else promised
        if promised is not None:
            self._make(promised, turn.run_s)
        elif misfit.capacity_helps:
            nodes = None if wanted.request.gang_size > 1 or misfit.node is None else (misfit.node,)
            passed = self.admission.limits.may_be_passed(turn.job.waits_since, self.timeline.now)
            self.draft.aside.add(replace(_blocked(turn, wanted, misfit), nodes=nodes, may_be_passed=passed))
        return promised

    def _hold_imminent(self, turn: Turn, wanted: PlacementRequest) -> None:
        """If running jobs are expected to end now, reserve for this job what they free within SAME_MOMENT_S.

        Jobs that are planned to end together end one after another. In between, a job behind this one must not take its
        devices.
        """
        if not self.ends_soon():
            return
        before = self.timeline.now + SAME_MOMENT_S
        promised = promise(self.draft, self.timeline, turn.job.id, wanted, turn.run_s, before=before)
        if promised is not None:
            self.hold(promised, turn.run_s)

    def _nodes_exist(self, placement: Placement) -> bool:
        """Whether all nodes and devices of the placement are in the cluster now."""
        return all(
            member.node in self.draft.capacity.names and len(self.draft.capacity.slots_of(member)) == len(member.grants)
            for member in placement.members
        )

    def _still_possible(self, wanted: PlacementRequest, promised: Promise, duration_s: float) -> bool:
        """Whether the promised devices will still be free at their time."""
        start, end = promised.start_at, promised.start_at + duration_s
        return still_there(self.draft, wanted, promised.placement, lambda name: self.timeline.window(name, start, end))


def _blocked(turn: Turn, wanted: PlacementRequest, misfit: Misfit) -> BlockedJob:
    host = misfit.cause in HOST_CAUSES
    return BlockedJob(turn.job.id, wanted.request, host, closed_pools=wanted.closed_pools)
