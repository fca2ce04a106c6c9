"""Decides whether a job may start at all, whatever is free: holds, dependencies, backoff, limits and quotas."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from corral.core.model.jobs.job import Job, JobKind, Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.plan import WaitReason
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.queues.quota import (
    NOTHING,
    SITE,
    UNLIMITED,
    QuotaUse,
    Scope,
    Used,
    borrowable_milli,
    excess,
    least_device_mib,
    left_milli,
    quotas_of,
    scopes_of,
)
from corral.core.model.runs.run_history import HOUR_S
from corral.core.model.units import MILLI_PER_DEVICE, count_of, format_duration, format_memory, format_share
from corral.core.scheduling.queueing.demand import Demands
from corral.core.scheduling.queueing.power_budget import OverBudget, PowerBudget


@dataclass(frozen=True, slots=True)
class Barrier:
    """The reason why a job may not start yet.

    Attributes:
        until: the time at which the barrier ends by itself, in Unix seconds.
        scope: the scope whose quota is exceeded, if several jobs share it.
        counted: the scope whose running jobs count against the quota, if the end of some would lift the barrier.
        excess: the amount by which the quota would be exceeded; jobs must release it first.
        behind: the job for which the rest of the quota is set aside.
    """

    reason: WaitReason
    detail: str
    until: float | None = None
    scope: Scope | None = None
    counted: Scope | None = None
    excess: Used = NOTHING
    behind: str | None = None


def ineligible(job: Job, now: float) -> Barrier | None:
    """The barrier that keeps a job out of its queue: a hold, a dependency, a begin time, or a backoff after failure.

    None if the job is eligible to be scheduled.
    """
    if job.held:
        return Barrier(WaitReason.HELD, "it is on hold")
    if job.waits_for:
        return Barrier(WaitReason.DEPENDENCY, ", ".join(job.waits_for[:3]))
    if job.eligible_at is not None and job.eligible_at > now:
        if not job.launches:
            return Barrier(WaitReason.BEGIN_TIME, "it is not to begin yet", until=job.eligible_at)
        return Barrier(WaitReason.BACKOFF, f"after {job.attempts} attempts", until=job.eligible_at)
    return None


class KeptQuotas(dict[Scope, tuple[str, float, bool]]):
    """Shared quotas that are set aside, each for the first job that exceeds it: small jobs would starve it otherwise.

    By scope: the job, the time at which enough will be released for it (Unix seconds), and whether others may pass it.
    """

    def keep(
        self, job: Job, barrier: Barrier, ends: Iterable[tuple[float, Used]], now: float, *, may_be_passed: bool
    ) -> None:
        """Set the quota aside, if it is shared and not set aside yet.

        `ends` are the expected ends of the running jobs, each with the use that it releases. Jobs that end before
        enough is released may still start. If that time is unknown, only jobs that may pass start, and only while the
        job `may_be_passed`.
        """
        if barrier.scope is not None and barrier.scope not in self:
            missing, at = barrier.excess, now
            for end, used in sorted(ends):
                if max(missing) <= 0:
                    break
                missing, at = missing.plus(used, -1), end
            self[barrier.scope] = (job.id, at, False) if at < inf else (job.id, now, may_be_passed)

    def barrier(self, scopes: Iterable[Scope], until: float, *, passes: bool) -> Barrier | None:
        """The barrier of a job that would run `until` then, if a quota of these scopes is set aside; None if not."""
        for scope in scopes:
            ahead, at, passed = self.get(scope, ("", inf, False))
            if until > at and not (passed and passes):
                kept = "the site's power budget" if scope == SITE else f"the quota of {scope.kind} {scope.name}"
                return Barrier(WaitReason.PRIORITY, kept, behind=ahead)
        return None


UsedSeconds = Callable[[Scope, float], float]
"""(scope, period in seconds) -> GPU-seconds used in the scope during that period up to now."""


class Admission:
    """Checks limits and quotas against the current use, including the jobs started in this cycle.

    `demands` gives the use of a job. `kept` are the quotas that are set aside in this cycle. `power` is the site's
    power budget, None if it has none.
    """

    def __init__(
        self,
        use: QuotaUse,
        demands: Demands,
        limits: Limits,
        projects: Mapping[str, Project],
        used_s: UsedSeconds,
        *,
        power: PowerBudget | None = None,
    ) -> None:
        self._use = use
        self.demands = demands
        self.limits = limits
        self._projects = projects
        self._used_s = used_s
        self.power = power
        self._since = QuotaUse(use.queues)
        self.kept = KeptQuotas()

    def without(self, allocations: Iterable[tuple[Job, Placement]]) -> "Admission":
        """A copy in which these jobs do not count: it shows what would then be allowed."""
        power = None if self.power is None else self.power.copy()
        copy = Admission(self._use, self.demands, self.limits, self._projects, self._used_s, power=power)
        copy._since.used.update(self._since.used)
        for job, placement in allocations:
            copy.started(job, placement, -1)
        return copy

    def started(self, job: Job, placement: Placement, sign: int = 1) -> None:
        """Count a job that starts in this cycle. With `sign` -1, undo the count."""
        self._since.count(job, self.demands.of(job, placement), sign)
        if self.power is not None:
            self.power.count(job, placement, sign)

    def used(self, scope: Scope) -> Used:
        """The use that counts against the scope, including the starts of this cycle."""
        before, since = self._use.used.get(scope, NOTHING), self._since.used.get(scope)
        return before if since is None else before.plus(since)

    def barrier(self, job: Job, until: float = inf, *, due: bool = False) -> Barrier | None:
        """The limit or quota that the job would exceed, with numbers; None if it may start now and run `until` then.

        A job whose promise is `due` may use quotas that are set aside for other jobs.
        """
        if self.kept and job.spec.request.devices and not due:
            passes = self.limits.may_pass(job.spec.time_limit_s)
            kept = self.kept.barrier(scopes_of(job, self._use.queues), until, passes=passes)
            if kept is not None:
                return kept
        if job.array_id is not None and job.array_limit is not None:
            live = self.used(Scope("array", job.array_id)).running
            if live >= job.array_limit:
                return Barrier(WaitReason.ARRAY_LIMIT, f"{live} of at most {job.array_limit} elements run")
        most = self.limits.max_running_jobs
        if most is not None and job.spec.kind is JobKind.RUN and (running := self.used(SITE).running) >= most:
            return Barrier(WaitReason.LIMIT, f"{running} of at most {most} jobs run", counted=SITE)
        quota = self._exceeded(job, self.demands.least(job))
        return (
            quota
            if quota is not None or self.power is None
            else _out_of_power(self.power.barrier(self.demands.request(job)))
        )

    def exceeded(self, job: Job, placement: Placement) -> Barrier | None:
        """The limit that the job would exceed with this placement; None if it may start there."""
        return self._exceeded(job, self.demands.of(job, placement)) or self._power_exceeded(job, placement)

    def exceeded_only_there(self, job: Job, placement: Placement) -> Barrier | None:
        """Like `exceeded`, for a job that passed `barrier`, which has already checked the minimum use of the job."""
        if self.demands.of(job, placement) == self.demands.least(job):
            return self._power_exceeded(job, placement)
        return self.exceeded(job, placement)

    def _power_exceeded(self, job: Job, placement: Placement) -> Barrier | None:
        return None if self.power is None else _out_of_power(self.power.exceeded(job, placement))

    def _exceeded(self, job: Job, more: Used) -> Barrier | None:
        for scope, quota, lent_milli in self._quotas(job):
            broken = self._broken(scope, quota, more, lent_milli)
            if broken is not None:
                shared = scope if scope.kind in ("queue", "project") and quota.gpu_hours is None else None
                over = excess(self.used(scope).plus(more), quota, lent_milli)
                return Barrier(WaitReason.LIMIT, broken, scope=shared, counted=scope, excess=over)
        return None

    def shortfall(self, job: Job) -> dict[Scope, Used] | None:
        """The amount, by scope, that running jobs must release before no limit blocks the job.

        None if no release helps: its GPU-hours are used up, or the limit of its array is reached.
        """
        more = self.demands.least(job)
        found: dict[Scope, Used] = {}
        limit = None if job.array_id is None else job.array_limit
        if limit is not None and self.used(Scope("array", job.array_id or "")).running >= limit:
            return None
        most = self.limits.max_running_jobs
        if most is not None and job.spec.kind is JobKind.RUN and (over := self.used(SITE).running + 1 - most) > 0:
            found[SITE] = Used(running=over)
        for scope, quota, lent_milli in self._quotas(job):
            if more.devices and self._hours_used(scope, quota) is not None:
                return None
            running, devices, milli, mib, _ = excess(self.used(scope).plus(more), quota, lent_milli)
            # A limit on an amount that the job does not use does not block it, even if it is exceeded.
            missing = Used(running, devices * bool(more.devices), milli * bool(more.milli), mib * bool(more.memory_mib))
            if missing != NOTHING:
                found[scope] = missing
        over_budget = None if self.power is None else self.power.barrier(self.demands.request(job))
        if over_budget is not None:
            if over_budget.excess_mw is None:
                return None
            found[SITE] = found.get(SITE, NOTHING)._replace(power_mw=over_budget.excess_mw)
        return found

    def scopes_of(self, job: Job) -> tuple[Scope, ...]:
        """Every scope in which the use of the job counts."""
        return tuple(scopes_of(job, self._use.queues))

    def limited(self, job: Job) -> bool:
        """Whether any limit or quota applies to the job, even if it is not exceeded now."""
        if job.array_limit is not None or self.limits.max_running_jobs is not None:
            return True
        if self.power is not None and job.spec.request.devices:
            return True
        return any(quota != UNLIMITED for _, quota, _ in self._quotas(job))

    def request_within(self, job: Job, request: Request) -> Request:
        """The request of the job, restricted to devices on which it stays within every quota and the power budget.

        A fixed amount of memory counts as a smaller part of a larger device.
        """
        within_mw = None if self.power is None else self.power.within(request)
        if within_mw is not None:
            return replace(request, power_within_mw=within_mw)
        if request.memory_mib is None or (request.split_milli or 0) > MILLI_PER_DEVICE:
            return request
        rooms = [
            quota.share_milli + lent_milli - self.used(scope).milli
            for scope, quota, lent_milli in self._quotas(job)
            if quota.share_milli is not None
        ]
        if not rooms:
            return request
        most_milli = min(rooms) // (request.gang_size * request.devices)
        if most_milli >= MILLI_PER_DEVICE:
            return request
        least_mib = least_device_mib(request.memory_mib, most_milli)
        return replace(request, min_memory_mib=max(request.min_memory_mib or 0, least_mib))

    def loan_milli(self, job: Job, placement: Placement) -> int:
        """The milli-GPU by which the job's queue will exceed its own quota once the job has started there."""
        queue = self._use.queues.get(job.spec.queue)
        if queue is None or queue.quota.share_milli is None:
            return 0
        used = self.used(Scope("queue", queue.name)).milli + self.demands.of(job, placement).milli
        return max(0, used - queue.quota.share_milli)

    def left_milli(self, *, user: str, project: str, queue: str) -> int | None:
        """The milli-GPU that one more job of this user, project and queue may have, in whole quanta; None: no limit."""
        device_mib = self.demands.device_mib()
        rooms = [
            0
            if self._hours_used(scope, quota) is not None
            else left_milli(self.used(scope), quota, lent_milli, device_mib=device_mib)
            for scope, quota, lent_milli in self._quotas_of(user, project, queue)
        ]
        return min((room for room in rooms if room is not None), default=None)

    def _quotas(self, job: Job) -> Iterator[tuple[Scope, Quota, int]]:
        """Every quota that applies to the job, each with the milli-GPU that may be borrowed above it now."""
        return self._quotas_of(job.spec.user, job.spec.project, job.spec.queue)

    def _quotas_of(self, user: str, project: str, queue: str) -> Iterator[tuple[Scope, Quota, int]]:
        queues = self._use.queues
        for scope, quota in quotas_of(queues, self._projects, self.limits, user=user, project=project, queue=queue):
            lent_milli = 0
            if scope.kind == "queue":
                lent_milli = borrowable_milli(queues, queues[scope.name], self.used)
            yield scope, quota, lent_milli

    def _broken(self, scope: Scope, quota: Quota, more: Used, lent_milli: int) -> str | None:
        if quota == UNLIMITED:
            return None
        used = self.used(scope)
        who = f"{scope.kind} {scope.name}"
        if quota.running is not None and used.running + more.running > quota.running:
            return f"{who} runs {used.running} of at most {count_of(quota.running, 'job')}"
        if quota.devices is not None and more.devices and used.devices + more.devices > quota.devices:
            return _over(who, str(used.devices), str(more.devices), count_of(quota.devices, "GPU"))
        if quota.share_milli is not None and more.milli and used.milli + more.milli > quota.share_milli + lent_milli:
            most = f"{format_share(quota.share_milli)} GPUs"
            if quota.borrow_milli:
                most += f", with {format_share(lent_milli)} to borrow now"
            return _over(who, format_share(used.milli), format_share(more.milli), most)
        if more.devices and (used_h := self._hours_used(scope, quota)) is not None:
            period = format_duration(quota.period_s)
            return f"{who} used {used_h:.1f} of at most {quota.gpu_hours:g} GPU-hours in the last {period}"
        if quota.memory_mib is not None and more.memory_mib and used.memory_mib + more.memory_mib > quota.memory_mib:
            return _over(
                who, format_memory(used.memory_mib), format_memory(more.memory_mib), format_memory(quota.memory_mib)
            )
        return None

    def _hours_used(self, scope: Scope, quota: Quota) -> float | None:
        """The GPU-hours used, if they reach or exceed the quota; else None."""
        if quota.gpu_hours is None or quota.period_s is None:
            return None
        used_h = self._used_s(scope, quota.period_s) / HOUR_S
        return used_h if used_h >= quota.gpu_hours else None


def released(admission: Admission, job: Job, placement: Placement) -> Used:
    """The limited amounts that the end of a running job releases."""
    used, power = admission.demands.of(job, placement), admission.power
    return used if power is None else used._replace(power_mw=power.released_mw(job, placement))


def _out_of_power(over: OverBudget | None) -> Barrier | None:
    """The barrier of a job that does not fit into the power budget. If jobs can release enough, all wait for it."""
    if over is None:
        return None
    if over.excess_mw is None:
        return Barrier(WaitReason.POWER_BUDGET, over.detail)
    excess = Used(power_mw=over.excess_mw)
    return Barrier(WaitReason.POWER_BUDGET, over.detail, scope=SITE, counted=SITE, excess=excess)


def _over(who: str, used: str, more: str, most: str) -> str:
    return f"{who} uses {used} of at most {most}, and this job asks for {more} more"


def weighted_usage(admission: Admission, queues: Mapping[str, Queue]) -> Callable[[str], float]:
    """A function that returns the GPUs per weight in use by a queue. The queue with the lowest number goes first."""

    def holding(name: str) -> float:
        queue = queues.get(name)
        return admission.used(Scope("queue", name)).milli / MILLI_PER_DEVICE / (1.0 if queue is None else queue.weight)

    return holding
