"""Drawn sites with drawn work on them: whatever is set up, every plan is held to what a site may expect of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.model.devices.device import DeviceCondition, HeldPart, HoldingPod
from corral.core.model.fact import AllocationMade, ConditionObserved, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Plan, WaitReason
from corral.core.model.queues.queue import Limits, Pool, Project, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.forecast import expected_starts
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES, Backfill, BackfillOrder, Policy, Prefer, policy_of
from corral.core.scheduling.queueing.order import FCFS, HOUR_S, PRIORITY
from corral.core.scheduling.queueing.pools import Pools
from corral.core.scheduling.queueing.power_budget import counted_power_mw
from corral.core.scheduling.state.draft import draft_of
from corral.sim.engine import Engine, SimulatedWork, inventory
from corral.sim.faults.faults import Breakdown
from tests.core.scheduling.lab import A100, H100, T0, box, job, powered

NODES = [powered(box("m", 3, cpus=8, model=H100), 700), powered(box("n", 2, cpus=8, model=A100), 400)]
NAMES = ("a", "b", "c")
SITE_POLICIES = {
    **POLICIES,
    "strict": Policy(FCFS, strict=True),
    "shortest": Policy(FCFS, backfill_order=BackfillOrder.SJF, prefer=Prefer.FIRST),
    "spared": Policy(PRIORITY, Backfill.CONSERVATIVE, prefer=Prefer.FULLEST, spared_s=4.0),
    "by-score": Policy(FCFS, weights=(("spread", 1.0),)),
    "by-worth": Policy(FCFS, prefer=Prefer.CORRAL),
}
LASTING = sorted(name for name, policy in SITE_POLICIES.items() if policy.quantum_s is None)


@st.composite
def sites(draw: st.DrawFn, *, evicting: bool = True) -> View:
    """Two nodes, three queues of which some stand under a fourth, a project, a pool; `evicting` lets work be ended."""
    found = [Queue("lab", quota=Quota(share_milli=draw(st.sampled_from([None, 4000]))))]
    for name in NAMES:
        parent, share_milli = draw(st.sampled_from([None, "lab"])), draw(st.sampled_from([None, None, 2000, 3000]))
        running = draw(st.sampled_from([None, None, 2]))
        borrows = evicting and parent is not None and share_milli is not None and draw(st.booleans())
        found.append(
            Queue(
                name,
                policy=draw(st.sampled_from(sorted(SITE_POLICIES) if evicting else LASTING)),
                weight=draw(st.sampled_from([1.0, 3.0])),
                parent=parent,
                quota=Quota(share_milli=share_milli, running=running, borrow_milli=1000 if borrows else None),
                preempts=evicting and draw(st.booleans()),
                backfill=draw(st.sampled_from([None, "none", "easy", "conservative", "any"])),
            )
        )
    gpus = draw(st.sampled_from([("GPU-m-0",), ("m:1", "GPU-n-0"), ()]))
    pool = Pool("own", gpus, users=("x",), lends=evicting, part=None if gpus else 0.4)
    of_user = Quota(devices=draw(st.sampled_from([None, None, 2])), running=draw(st.sampled_from([None, None, 2])))
    view = View(
        queues={queue.name: queue for queue in found},
        projects={"p": Project("p", quota=Quota(devices=draw(st.sampled_from([None, 2]))))},
        pools={pool.name: pool} if draw(st.booleans()) else {},
        limits=Limits(
            max_running_jobs=draw(st.sampled_from([None, None, 3])),
            of_user=of_user,
            pass_unknown_limit_s=draw(st.sampled_from([0.0, 10.0])),
            pass_unknown_until_s=20.0,
            power_budget_w=draw(st.sampled_from([None, None, 1100, 1500])),
        ),
    )
    part = HeldPart(HoldingPod("ml", "notebook-0"), 400, 8_000)
    partly = DeviceCondition("GPU-m-0", memory_free_mib=40_000, utilization_pct=0, parts=(part,))
    return view.advance([*inventory(NODES), *([ConditionObserved(partly)] if draw(st.booleans()) else [])])


WISH: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([0, 1, 1, 2, 3]),
        "queue": st.sampled_from(NAMES),
        "user": st.sampled_from("xyz"),
        "project": st.sampled_from(["default", "default", "p"]),
        "name": st.sampled_from(["", "", "noisy"]),
        "priority": st.integers(1, 9),
        "share_milli": st.sampled_from([1000, 1000, 500]),
        "gang_size": st.sampled_from([1, 1, 1, 2]),
        "models": st.sampled_from([(), (), ("A100",)]),
        "avoid_jobs": st.sampled_from([(), (), (), ("noisy",)]),
        "cpu_milli": st.sampled_from([1, 2000]),
        "power_limit_w": st.sampled_from([None, None, None, 300]),
        "packable": st.sampled_from([False, False, True]),
        "submitted_at": st.integers(0, 30).map(lambda at: T0 + at),
    }
)


def as_submitted(wish: dict[str, Any]) -> dict[str, Any]:
    """The wish as it may be submitted: a packable job has one GPU, and names its memory."""
    one_gpu = {"gpus": 1, "gang_size": 1, "share_milli": 1000, "power_limit_w": None}
    if not wish["packable"] or any(wish[key] != value for key, value in one_gpu.items()):
        return {**wish, "packable": False}
    return {**wish, "share_milli": 10, "share_of_memory": True, "memory_mib": 20_000, "name": wish["name"] or "small"}


@st.composite
def works(draw: st.DrawFn, site: View, *, exact: bool = False) -> list[SimulatedWork]:
    """Jobs that would start were they alone on the site. With `exact` each takes as long as it may, and says so."""
    found = []
    for number, wish in enumerate(draw(st.lists(WISH, min_size=1, max_size=12)), start=1):
        seconds = draw(st.sampled_from([1.0, 3.0, 10.0, 40.0]))
        limit_s = seconds if exact else draw(st.sampled_from([None, seconds, 4 * seconds]))
        one = job(number, time_limit_s=limit_s, **as_submitted({**wish, "name": ""} if exact else wish))
        if Planner(replace(site, jobs={one.id: one}), policies=SITE_POLICIES).plan(T0).starts:
            found.append(SimulatedWork(one, seconds))
    return found


def after(view: View, plan: Plan, now: float) -> View:
    """The view with the plan's starts carried out."""
    made = [Allocation(f"{one.job_id}.x", one.job_id, "", one.placement, now) for one in plan.starts]
    running = [
        JobChanged(one.job_id, {"phase": Phase.RUNNING, "allocation_id": one.id}, at=now, by="test") for one in made
    ]
    return view.advance([*running, *(AllocationMade(one, at=now, by="test") for one in made)])


def nothing_is_handed_out_twice(view: View) -> None:
    """No share is given to two jobs, nor to a job and a pod."""
    cpus = Counter[str]()
    for allocation in view.allocations.values():
        for member in allocation.placement.members:
            cpus[member.node] += member.cpu_milli
    for node in view.nodes.values():
        assert cpus[node.name] <= node.cpu_milli
        for device in node.devices:
            taken = sum(part.share_milli for part in view.conditions[device.uuid].parts)
            assert view.allocated_milli(device.uuid) + taken <= 1000


def gangs_start_whole(view: View, plan: Plan) -> None:
    for start in plan.starts:
        request = view.jobs[start.job_id].spec.request
        assert [len(member.grants) for member in start.placement.members] == [request.devices] * request.gang_size


def held_by(view: View, belongs: Callable[[Job], bool]) -> tuple[int, int, int]:
    """Jobs, devices and milli-GPU of those that run."""
    running = [one for one in view.jobs.values() if one.phase is Phase.RUNNING and belongs(one)]
    requests = [one.spec.request for one in running]
    grants = [grant for one in running for grant in view.allocations[one.allocation_id or ""].placement.grants]
    return len(running), sum(r.gang_size * r.devices for r in requests), sum(grant.share_milli for grant in grants)


def quotas_of_users_hold(view: View, plan: Plan) -> None:
    most = view.limits.of_user
    for user in {view.jobs[start.job_id].spec.user for start in plan.starts}:
        jobs, devices, _ = held_by(view, lambda one, user=user: one.spec.user == user)  # type: ignore[misc]
        assert most.running is None or jobs <= most.running
        assert most.devices is None or not devices or devices <= most.devices


def the_power_budget_holds(view: View) -> None:
    """Each device with a job counts once, with the limit of the job that has set one, else with its own."""
    budget_w = view.limits.power_budget_w
    if budget_w is None:
        return
    limits_w = {device.uuid: (device.power_limit_mw or 0) / 1000 for one in NODES for device in one.devices}
    for allocation in view.allocations.values():
        own_w = view.jobs[allocation.job_id].spec.request.power_limit_w
        limits_w |= dict.fromkeys(allocation.placement.uuids, own_w) if own_w is not None else {}
    assert sum(limits_w[uuid] for uuid in view.holders) <= budget_w
    assert counted_power_mw(view, budget_w) == 1000 * sum(limits_w[uuid] for uuid in view.holders)


def who_is_less_urgent_alone_makes_room_for_urgent_work(view: View, plan: Plan) -> None:
    for end in plan.evictions:
        if end.rule is EvictionRule.PRIORITY:
            urgent, other = view.jobs[end.for_job_id].spec, view.jobs[end.job_id].spec
            assert urgent.priority < other.priority
            assert view.queues[urgent.queue].preempts


def below(view: View, queue: str | None, above: str) -> bool:
    return queue == above or (queue is not None and below(view, view.queues[queue].parent, above))


def quotas_hold_but_for_loans(view: View, plan: Plan) -> None:
    """A queue in which a job has just started is above its own by what is recorded as a loan, and no more."""
    loans: dict[str, int] = {}
    for start in plan.starts:
        spec = view.jobs[start.job_id].spec
        loans[spec.queue] = max(start.loan_milli, loans.get(spec.queue, 0))
        most = view.projects["p"].quota.devices
        if spec.project == "p" and spec.request.devices and most is not None:
            assert held_by(view, lambda one: one.spec.project == "p")[1] <= most
    for name in sorted(loans):
        assert loans[name] <= (view.queues[name].quota.borrow_milli or 0)
        for above in (name, view.queues[name].parent):
            if above is not None:
                quota = view.queues[above].quota
                jobs, _, milli = held_by(view, lambda one, above=above: below(view, one.spec.queue, above))  # type: ignore[misc]
                assert quota.running is None or jobs <= quota.running
                assert (
                    quota.share_milli is None
                    or milli <= quota.share_milli + loans.get(above, 0)
                    or not gpus_in(view, plan, name)
                )


def gpus_in(view: View, plan: Plan, queue: str) -> bool:
    """Whether a job that takes GPUs has just started in the queue."""
    started = [view.jobs[start.job_id].spec for start in plan.starts]
    return any(spec.queue == queue and spec.request.devices for spec in started)


def nobody_waits_for_nothing(view: View, plan: Plan, now: float) -> None:
    """Where nobody is promised or kept anything, nor limited, whoever fits has started."""
    policies = [policy_of(view.queues[view.jobs[wait.job_id].spec.queue], SITE_POLICIES) for wait in plan.waits]
    keeping = any(policy.strict or policy.backfill is not Backfill.ANY for policy in policies)
    limited = any(wait.reason is not WaitReason.RESOURCES for wait in plan.waits)
    powerless = view.limits.power_budget_w is not None
    if view.promises or plan.future_starts or keeping or limited or powerless:
        return
    waiting = [one for one in view.jobs.values() if one.phase is Phase.PENDING]
    pools, draft = Pools(view, waiting), draft_of(view)
    assert not [one.id for one in waiting if isinstance(choose(draft, pools.placement_request(one, now)), Placement)]


class Demands:
    """Looks at each plan of a planner before it is carried out."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._ended_for: dict[str, int] = {}
        self._plans = 0

    def watch(self, now: float, plan: Plan) -> None:
        """What holds of every plan."""
        self._plans += 1
        assert self._plans < 2_000, "the site does not come to rest"
        view = self._planner.view
        then = after(view, plan, now)
        nothing_is_handed_out_twice(then)
        gangs_start_whole(view, plan)
        quotas_hold_but_for_loans(then, plan)
        quotas_of_users_hold(then, plan)
        the_power_budget_holds(then)
        who_is_less_urgent_alone_makes_room_for_urgent_work(view, plan)
        assert self._planner.with_view(view).plan(now) == plan, "a cold planner plans the same"
        held = [one.job_id for one in plan.waits if one.reason is WaitReason.RESOURCES]
        before = [*(start.job_id for start in plan.starts), *(one for one in held if one not in self._ended_for)]
        urgent = min((view.jobs[one].spec.priority for one in before), default=inf)
        for job_id, priority in self._ended_for.items():
            assert urgent <= priority, f"others were ended for {job_id}, and neither it nor more urgent work gains"
        self._ended_for = {
            end.for_job_id: view.jobs[end.for_job_id].spec.priority
            for end in plan.evictions
            if end.for_job_id not in {other.job_id for other in plan.evictions}
        }
        if plan.complete and not plan.evictions:
            nobody_waits_for_nothing(then, plan, now)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_whatever_a_site_has_set_up_its_plans_are_sound_and_every_job_runs_in_the_end(data: st.DataObject) -> None:
    site = data.draw(sites())
    some = data.draw(works(site))
    planner = Planner(site, policies=SITE_POLICIES)
    breakdowns = [Breakdown("GPU-n-0", T0 + 20, T0 + 50)] if data.draw(st.booleans()) else []
    Engine(planner, [Demands(planner).watch], tick_s=HOUR_S, breakdowns=breakdowns).run(some)
    assert all(one.ended_at is not None for one in some)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_with_exact_limits_and_no_newcomers_every_predicted_start_is_the_start(data: st.DataObject) -> None:
    site = data.draw(sites(evicting=False))
    some = data.draw(works(site, exact=True))
    planner = Planner(site, policies=SITE_POLICIES)
    last = max((one.job.submitted_at for one in some), default=T0)
    told: dict[str, float | None] = {}

    def ask_once(now: float, _plan: Plan) -> None:
        if now >= last and not told:
            waiting = [one.id for one in planner.view.jobs.values() if one.phase is Phase.PENDING]
            view = replace(planner.view, jobs=dict(planner.view.jobs))
            told.update(
                {
                    job_id: one.start_at
                    for job_id, one in expected_starts(view, now, waiting, planner=planner.with_view).items()
                }
            )

    Engine(planner, [ask_once]).run(some)
    assert told == {one.job.id: one.started_at for one in some if one.job.id in told}
