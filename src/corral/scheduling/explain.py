"""Why a job waits, in one sentence with the numbers, and what to do about it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from corral.model.allocation import Placement
from corral.model.device import Device, DeviceState
from corral.model.fact import JobSubmitted
from corral.model.fit import Cause, Misfit, could_use, node_state, share_milli_of
from corral.model.job import DEFAULT_PRIORITY, Job, JobKind, JobSpec, Phase, Request
from corral.model.plan import Hold, Plan, WaitReason, group_of
from corral.model.submission import Submission
from corral.model.units import MILLI_PER_DEVICE, count_of, format_duration, format_memory
from corral.model.view import View
from corral.scheduling.admit import parked
from corral.scheduling.feasible import impossible, nearest_that_starts, place_now
from corral.scheduling.foresee import Expected, MakePlanner, foresee
from corral.scheduling.planner import Planner
from corral.scheduling.words import count_of_cpus, flags_of, job_called, jobs_called, need_of, title_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits. `starts_now_with` are the flags of the nearest request that would start at once."""

    sentence: str
    reason: WaitReason
    position: int | None = None
    expected_start: float | None = None
    depends_on: str | None = None
    starts_now_with: str | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would become of a submission now: where it starts, or why not, when, and what would start instead.

    What can never start here is not `possible`, and would be refused.
    """

    sentence: str
    placement: Placement | None = None
    expected_start: float | None = None
    nearest: str | None = None
    possible: bool = True


def explain(
    view: View, job: Job, hold: Hold | None, now: float, *, plan: Plan | None = None, planner: MakePlanner = Planner
) -> Explanation:
    """Why a PENDING job waits at `now`. `hold` is the plan's for the job or its group, None if it has none.

    `planner` makes a planner as the server's own is made: it is asked when the job will start.
    """
    barrier = parked(job, now)
    if barrier is not None:
        hold = Hold(job.id, barrier.reason, 0, until=barrier.until, detail=barrier.detail)
    elif hold is None:
        hold = Hold(job.id, WaitReason.NOT_REACHED, 0)
    position = _position(view, job, now)
    expected = foresee(view, now, [job.id], planner=planner)[job.id]
    suggestion = None
    if hold.reason in (WaitReason.RESOURCES, WaitReason.PRIORITY, WaitReason.RESERVATION):
        smaller = nearest_that_starts(view, job.spec.request, plan, job)
        suggestion = _flags(smaller, job.spec.request)
    parts = [
        f"{title_of(job)} waits{_because(view, job, hold, position, now)}.",
        "" if hold.reason in (WaitReason.DEPENDENCY, WaitReason.BACKOFF) else _when(view, expected, now),
        "" if suggestion is None else f"{suggestion} starts now.",
    ]
    return Explanation(
        sentence=" ".join(part for part in parts if part),
        reason=hold.reason,
        position=position,
        expected_start=expected.start_at,
        depends_on=expected.depends_on,
        starts_now_with=suggestion,
    )


def forecast(
    view: View,
    submission: Submission,
    user: str,
    now: float,
    *,
    plan: Plan | None = None,
    planner: MakePlanner = Planner,
) -> Forecast:
    """What would become of `submission`, were `user` to submit it at `now`."""
    request = submission.request
    never = impossible(view, request)
    if never is not None:
        nearest = _flags(nearest_that_starts(view, request), request)
        return Forecast(f"it can never start here: {never}", nearest=nearest, possible=False)
    plan = plan or planner(view).plan(now)
    found = place_now(view, plan, request)
    expected = _expected_of(view, submission, user, now, planner)
    if isinstance(found, Placement) and expected.start_at == now:
        return Forecast("it would start now", placement=found, expected_start=now)
    why = "others go first" if isinstance(found, Placement) else _lack(view, request, found, now)
    when = _when(view, expected, now)
    return Forecast(
        f"it would wait: {why}" + (f". {when}" if when else ""),
        expected_start=expected.start_at,
        nearest=_flags(nearest_that_starts(view, request, plan), request),
    )


def _expected_of(view: View, submission: Submission, user: str, now: float, planner: MakePlanner) -> Expected:
    """When the submission would start, as one that comes after all that wait already."""
    spec = JobSpec(
        user=user,
        name=submission.name,
        kind=submission.kind,
        request=submission.request,
        priority=DEFAULT_PRIORITY if submission.priority is None else submission.priority,
        queue=submission.queue,
        project=submission.project,
        time_limit_s=submission.time_limit_s,
    )
    last = max((job.sequence for job in view.jobs.values()), default=0)
    job = Job("the one asked about", last + 1, spec, now)
    return foresee(view.advance([JobSubmitted(job, now)]), now, [job.id], planner=planner)[job.id]


def _when(view: View, expected: Expected, now: float) -> str:
    """When it starts, or which job without an end in sight that depends on."""
    if expected.start_at is not None:
        wait_s = expected.start_at - now
        return f"It is expected to start in {format_duration(wait_s)}." if wait_s > 0 else ""
    if expected.depends_on is None or expected.depends_on not in view.jobs:
        return ""
    return f"When it starts depends on {job_called(view.jobs[expected.depends_on])}, which has no time limit."


def wait_reason(job: Job, hold: Hold | None, now: float) -> WaitReason:
    """The reason in one word, for listings."""
    barrier = parked(job, now)
    if barrier is not None:
        return barrier.reason
    return WaitReason.NOT_REACHED if hold is None else hold.reason


def ended_sentence(job: Job, now: float) -> str:
    """What became of a job that waits no longer."""
    ran = "" if job.started_at is None else f" after {format_duration((job.ended_at or now) - job.started_at)}"
    tail = f": {job.reason}" if job.reason else ""
    code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
    match job.phase:
        case Phase.STARTING:
            return f"{job.title} has its devices and is being started"
        case Phase.RUNNING:
            since = "" if job.started_at is None else f" and has run for {format_duration(now - job.started_at)}"
            return f"{job.title} does not wait: it is running{since}"
        case Phase.STOPPING:
            return f"{job.title} is being stopped{tail}"
        case Phase.SUCCEEDED:
            return f"{job.title} succeeded{ran}"
        case Phase.FAILED:
            return f"{job.title} failed{code}{ran}{tail}"
        case Phase.CANCELLED:
            return f"{job.title} was cancelled{ran}{tail}"
        case Phase.TIMED_OUT:
            return f"{job.title} reached its time limit{ran}{tail}"
        case Phase.LOST:
            return f"{job.title} was lost{ran}{tail}"
        case Phase.PENDING:
            return f"{job.title} waits"


def _flags(easier: Request | None, asked: Request) -> str | None:
    return None if easier is None else flags_of(easier, asked)


def _position(view: View, job: Job, now: float) -> int:
    """The job's place, from 1, among those that wait for nothing but their turn."""
    key = (job.spec.priority, job.sequence)
    return 1 + sum(
        other.phase is Phase.PENDING
        and (other.spec.priority, other.sequence) < key
        and not other.held
        and not other.waits_for
        and (other.eligible_at is None or other.eligible_at <= now)
        for other in view.jobs.values()
    )


def _because(view: View, job: Job, hold: Hold, position: int, now: float) -> str:
    match hold.reason:
        case WaitReason.HELD:
            return f": it is on hold; `corral release {job.id}` lets it go"
        case WaitReason.DEPENDENCY:
            return f" for {_parents(view, job)}"
        case WaitReason.BACKOFF:
            why = f" ({job.reason})" if job.reason else ""
            pause = format_duration((hold.until or now) - now)
            return f": its last start failed{why}; it is tried again in {pause}"
        case WaitReason.ARRAY_LIMIT:
            return f": {hold.detail}; it goes on when one of them ends"
        case WaitReason.LIMIT:
            return f": {hold.detail}; it goes on when one of them ends"
        case WaitReason.PRIORITY:
            return f": {_behind(view, job, hold)}"
        case WaitReason.RESERVATION:
            return f": {_would_delay(view, job, hold)}"
        case WaitReason.RESOURCES if hold.misfit is not None:
            return f": {_lack(view, job.spec.request, hold.misfit, now)}"
        case _ if position > 1:
            return f": {count_of(position - 1, 'job')} ahead of it, and it is looked at after them"
        case _:
            return ": it has just come and has not been looked at yet"


def _parents(view: View, job: Job) -> str:
    words = []
    for parent in job.waits_for[:3]:
        other = view.jobs.get(parent)
        phase = "" if other is None else f", which is {'waiting' if other.phase is Phase.PENDING else 'running'}"
        words.append((f"job {parent}" if other is None else job_called(other)) + phase)
    more = len(job.waits_for) - 3
    if more > 0:
        words.append(f"{more} more")
    end = "that succeeds" if len(job.waits_for) == 1 else "they succeed"
    return f"{'; '.join(words)}; it starts after {end}"


def _behind(view: View, job: Job, hold: Hold) -> str:
    ahead = view.jobs.get(hold.behind or "")
    if ahead is None:
        return f"what it needs ({need_of(job.spec.request)}) is kept for a job ahead of it"
    first = f" with priority {ahead.spec.priority}" if ahead.spec.priority != job.spec.priority else ""
    return (
        f"{need_of(job.spec.request)} would be free, but {job_called(ahead)} goes first{first} "
        f"and waits for {need_of(ahead.spec.request)}"
    )


def _would_delay(view: View, job: Job, hold: Hold) -> str:
    ahead = view.jobs.get(hold.behind or "")
    delayed = "a job ahead of it" if ahead is None else job_called(ahead)
    limit = job.spec.time_limit_s
    shorter = "a time limit that is short enough" if limit is None else f"a limit shorter than {format_duration(limit)}"
    return (
        f"{need_of(job.spec.request)} would be free, but starting it would delay {delayed}, which has that reserved; "
        f"with {shorter} it could run before"
    )


def _lack(view: View, request: Request, misfit: Misfit, now: float) -> str:
    """What is needed, what there is on the best node, and who gives back what when."""
    need = f"it needs {need_of(request)}"
    node = view.nodes.get(misfit.node or "")
    if node is None:
        return f"{need}; no node is in the cluster now" if not view.nodes else f"{need}; no node has that free"
    here = node.name if len(view.nodes) == 1 else f"best is {node.name}, which"
    if misfit.cause is Cause.CPU:
        has = f"{count_of_cpus(max(0, misfit.available))} of {count_of_cpus(node.cpu_milli)} free"
        return f"{need}; {here} has {has}"
    if misfit.cause is Cause.HOST_MEMORY:
        has = f"{format_memory(max(0, misfit.available))} of {format_memory(node.memory_mib)} of memory free"
        return f"{need}; {here} has {has}"
    if misfit.cause is Cause.ANTI_AFFINITY:
        return f"{need}; {here} runs {', '.join(request.avoid_jobs)}, which it must not meet"
    there = "; ".join(part for part in (_inventory(view, node.name, request, now), _frees(view, request, now)) if part)
    return f"{need}; {here} has {there}"


def _inventory(view: View, name: str, request: Request, now: float) -> str:
    """The node's devices that could serve the request, counted by what is with them now."""
    state = node_state(view, name)
    free, parts = 0, []
    held: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for device, slot in zip(view.nodes[name].devices, state.slots, strict=True):
        if request.device_uuids and device.uuid not in request.device_uuids:
            continue
        if not could_use(request, slot):
            other["of another kind"] += 1
        elif slot.blocked is not None:
            other[_blocked(view, device, slot.blocked, now)] += 1
        elif slot.free_milli < share_milli_of(request, slot):
            held.update(dict.fromkeys(_holder_ids(view, device.uuid), 1))
            parts.append(device.uuid)
        else:
            free += 1
    words = [f"{free} free"]
    if parts:
        words.append(f"{len(parts)} {_held_by(view, held)}{_shared(view, parts)}")
    words += [f"{count} {what}" for what, count in sorted(other.items(), key=lambda item: (-item[1], item[0]))]
    return ", ".join(words)


def _holder_ids(view: View, uuid: str) -> list[str]:
    return [view.allocations[allocation_id].job_id for allocation_id in view.holders.get(uuid, ())]


def _held_by(view: View, held: Counter[str]) -> str:
    ids = sorted(held, key=lambda job_id: (-held[job_id], len(job_id), job_id))
    users = sorted({view.jobs[job_id].spec.user for job_id in ids if job_id in view.jobs})
    verb = "held by"
    if ids and all(job_id in view.jobs and view.jobs[job_id].spec.kind is JobKind.RESERVE for job_id in ids):
        verb = "reserved by"
    return f"{verb} {jobs_called(ids)}" + (f" ({', '.join(users)})" if users and len(users) <= 3 else "")


def _shared(view: View, uuids: Iterable[str]) -> str:
    """The milli-GPU in use of devices that are shared, in order."""
    in_use = [milli for uuid in uuids if (milli := view.held_milli(uuid)) < MILLI_PER_DEVICE]
    return f" ({', '.join(map(str, in_use))} of 1000 in use)" if in_use else ""


def _blocked(view: View, device: Device, state: DeviceState, now: float) -> str:
    condition = view.conditions.get(device.uuid)
    if condition is None:
        return "not sampled yet"
    if state in (DeviceState.IN_USE, DeviceState.STALE):
        users = sorted({process.user or "somebody" for process in condition.strangers})
        since = condition.strangers_since
        started = "" if since is None else f" for {format_duration(now - since)}"
        verb = "in use by" if state is DeviceState.IN_USE else "with memory held, unused, by"
        return f"{verb} {', '.join(users) or 'somebody'}{started}, not started by Corral"
    reason = condition.reason(state)
    return state.value.replace("_", " ") + (f" ({reason})" if reason else "")


def _frees(view: View, request: Request, now: float) -> str | None:
    """Which job that holds devices of the right kind is the first that must give them back."""
    useful = _useful_devices(view, request)
    ends = []
    for allocation in view.allocations.values():
        job = view.jobs.get(allocation.job_id)
        if job is None or job.spec.time_limit_s is None:
            continue
        count = sum(uuid in useful for uuid in allocation.placement.uuids)
        if count:
            start = job.started_at if job.started_at is not None else allocation.created_at
            ends.append((start + job.spec.time_limit_s, job.sequence, job, count))
    if not ends:
        return None
    end, _, job, count = min(ends, key=lambda item: item[:2])
    return f"{job_called(job)} gives back {count} within {format_duration(end - now)} (its time limit)"


def _useful_devices(view: View, request: Request) -> frozenset[str]:
    """The devices, held or not, that are of the kind the request needs."""
    return frozenset(
        device.uuid
        for name, node in view.nodes.items()
        for device, slot in zip(node.devices, node_state(view, name).slots, strict=True)
        if could_use(request, slot, named=not request.device_uuids or device.uuid in request.device_uuids)
    )


class HoldIndex:
    """The holds of one plan, found by job: a hold stands for its whole group."""

    def __init__(self, plan: Plan, view: View) -> None:
        self._by_job = {hold.job_id: hold for hold in plan.holds}
        self._by_group = {group_of(view.jobs[hold.job_id]): hold for hold in plan.holds if hold.job_id in view.jobs}

    def of(self, job: Job) -> Hold | None:
        """The hold of the job or of its group, None when the plan did not come to it."""
        hold = self._by_group.get(group_of(job))
        if job.id in self._by_job or hold is None:
            return self._by_job.get(job.id)
        return replace(hold, job_id=job.id, expected_start=None, depends_on=None)
