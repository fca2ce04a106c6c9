"""The jobs of a period run again on the site as it is, under each of some policies, beside how it really went."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationEnded, AllocationMade, DevicesExchanged, Fact, SiteArranged
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.placing.plan import Plan
from corral.core.model.runs.run_history import PastRun
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import DEFAULT, Policy, policy_of, split_policy
from corral.features.replays.answers import ReplayedRun, ReplayResult
from corral.features.replays.courses import Course, Use, side_by_side
from corral.features.replays.replay_order import CONFIGURED, ReplayOrder
from corral.sim.engine import Engine, Progress, SimulatedWork, inventory
from corral.sim.replays.journal import Recorded, as_submitted, recorded_jobs, recorded_nodes
from corral.sim.reports.history import History

RECORDED = "recorded"

TICK_S = 3600.0
"""The planning interval. Time alone may let a job start, as when GPU-hours of a quota expire."""

DAY_S = 86400.0
PATIENCE = 2.0
"""A course ends this many lengths of the period (of a day at least) after the last recorded end."""


class _RunsAlone(History):
    """The runs of a course; the use at each moment follows from them."""

    def note(self, at: float, allocations: Iterable[Allocation], waiting: int) -> None:
        """Nothing is kept."""


def replay(
    facts: Sequence[Fact],
    order: ReplayOrder,
    policies: Mapping[str, Policy],
    progress: Progress,
    *,
    remembered: Sequence[PastRun] = (),
) -> ReplayResult:
    """Return the courses of the order's policies.

    `facts` are all facts of the journal about the jobs of the period, in order. `remembered` are the runs before it:
    fair shares and estimates of run times build on them. Jobs that ran when it began have their GPUs from the
    beginning, for as long as they really ran on. Raises Refused if no job of the period has started, or a policy is
    unknown.
    """
    there = [one for one in recorded_jobs(facts, order.now) if (one.ended_at or 0.0) > order.since]
    counted = [one for one in there if _started(one) >= order.since and one.job.submitted_at < order.until]
    if not counted:
        raise Refused("no job waited or started in this time; choose another", field="since")
    placements = _last_placements(facts)
    holding = [one for one in there if _started(one) < order.since and one.job.id in placements]
    nodes = _cluster(order.nodes, recorded_nodes(facts))
    courses = [_recorded(facts, counted, order)]
    before = View(
        usage_half_life_s=order.usage_half_life_s, availability_memory_weight=order.availability_memory_weight
    ).remembering(remembered)
    total = len(order.policies) * len(there)
    for index, name in enumerate(order.policies):
        planner = _planner(name, order.site, before, policies)
        planner.advance(inventory(nodes))
        simulated = _Simulated(counted, {one.job.id: placements[one.job.id] for one in holding}, holding)
        tell = _part_of(progress, index * len(there), total)
        courses.append(simulated.run(name, planner, order, _tick_s(planner, policies), tell))
    gpus = sum(len(node.devices) for node in nodes)
    # Before the first job of a server there is nothing to show.
    since = order.since if holding else max(order.since, min(one.job.submitted_at for one in counted))
    return side_by_side([one.job for one in counted], courses, since=since, until=order.until, gpus=gpus)


class _Simulated:
    """The jobs of one course: the counted jobs, and those that held their GPUs when it began."""

    def __init__(
        self, counted: Sequence[Recorded], running: Mapping[str, Placement], holding: Sequence[Recorded]
    ) -> None:
        self._counted = counted
        self._running = running
        self._holding = holding
        self._evictions = 0

    def run(self, name: str, planner: Planner, order: ReplayOrder, tick_s: float, progress: Progress) -> Course:
        """Run them through."""
        works = [SimulatedWork(as_submitted(one.job), one.ran_s) for one in self._counted]
        rest = [SimulatedWork(as_submitted(one.job), max(1e-3, _ended(one) - order.since)) for one in self._holding]
        last = max(_ended(one) for one in (*self._counted, *self._holding))
        history = _RunsAlone()
        engine = Engine(
            planner,
            watches=[self._watch],
            tick_s=tick_s,
            history=history,
            progress=progress,
            begin=order.since,
            until=last + PATIENCE * max(DAY_S, last - order.since),
        )
        engine.run([*works, *rest], running=self._running)
        course = Course(name, evictions=self._evictions)
        course.uses = [Use(run.start, run.end, run.allocation.gpus) for run in history.runs]
        ended = {work.job.id: work for work in works if work.ended_at is not None}
        for work in works:
            course.runs[work.job.id] = _run_of(work) if work.job.id in ended else ReplayedRun()
        idle_from = {work.job.id: work.job.submitted_at for work in works}
        for run in sorted(history.runs, key=lambda one: one.start):
            if (waits_from := idle_from.get(run.allocation.job_id)) is not None:
                course.waits.append((waits_from, run.start))
                idle_from[run.allocation.job_id] = run.end
        course.waits += [(idle_from[work.job.id], engine.until) for work in works if work.job.id not in ended]
        return course

    def _watch(self, _now: float, plan: Plan) -> None:
        self._evictions += len(plan.evictions)


def _run_of(work: SimulatedWork) -> ReplayedRun:
    # Without the maximum, a job evicted at its end, or with a rounded run time, would have a negative wait.
    return ReplayedRun(work.started_at, work.ended_at, max(0.0, work.wait_s))


def _recorded(facts: Sequence[Fact], counted: Sequence[Recorded], order: ReplayOrder) -> Course:
    """Return the real course."""
    course = Course(RECORDED)
    for one in counted:
        course.runs[one.job.id] = ReplayedRun(one.started_at, one.ended_at, one.wait_s)
        course.waits.append((one.job.submitted_at, _started(one)))
    open_uses: dict[str, tuple[float, float]] = {}
    for fact in facts:
        match fact:
            case AllocationMade(allocation=allocation):
                open_uses[allocation.id] = fact.at, allocation.gpus
            case AllocationEnded(allocation_id=allocation_id) if allocation_id in open_uses:
                start, gpus = open_uses.pop(allocation_id)
                course.uses.append(Use(start, fact.at, gpus))
    course.uses += [Use(start, order.now, gpus) for start, gpus in open_uses.values()]
    return course


def _planner(name: str, site: SiteArranged, before: View, policies: Mapping[str, Policy]) -> Planner:
    """A planner over the site's queues, quotas and pools, with this policy in place of those of its queues."""
    default = DEFAULT
    if name != CONFIGURED:
        policy, backfill = split_policy(name, policies)
        default = policies[policy] if backfill is None else replace(policies[policy], backfill=backfill)
        queues = tuple(
            replace(queue, policy=policy, backfill=None if backfill is None else backfill.value)
            for queue in site.queues
        )
        site = replace(site, queues=queues)
    planner = Planner(before, policy=default, policies=policies)
    planner.advance([SiteArranged(site.queues, site.projects, site.pools, site.limits)])
    return planner


def _tick_s(planner: Planner, policies: Mapping[str, Policy]) -> float:
    quanta = [policy_of(queue, policies).quantum_s for queue in planner.view.queues.values()]
    return min([TICK_S, *(quantum for quantum in quanta if quantum is not None)])


def _cluster(now: Sequence[Node], recorded: Sequence[Node]) -> list[Node]:
    """The nodes as they are, plus GPUs that jobs of the period had and that are gone."""
    known = {device.uuid for node in now for device in node.devices}
    nodes = {node.name: node for node in now}
    for node in recorded:
        gone = tuple(device for device in node.devices if device.uuid not in known)
        here = nodes.get(node.name)
        if here is not None:
            nodes[node.name] = replace(here, devices=(*here.devices, *gone))
        elif gone:
            nodes[node.name] = replace(node, devices=gone)
    return [nodes[name] for name in sorted(nodes)]


def _last_placements(facts: Iterable[Fact]) -> dict[str, Placement]:
    made = (fact.allocation for fact in facts if isinstance(fact, AllocationMade | DevicesExchanged))
    return {allocation.job_id: allocation.placement for allocation in made}


def _part_of(progress: Progress, before: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: progress(before + done, total)


def _started(one: Recorded) -> float:
    return one.started_at or 0.0


def _ended(one: Recorded) -> float:
    return one.ended_at or 0.0
