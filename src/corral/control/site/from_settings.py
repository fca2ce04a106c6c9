"""Turns a site's settings into queues, projects, pools and limits, which the planner and submissions go by."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from corral.config import Settings
from corral.config.site import PoolPlan, PoolStrategy
from corral.control.site.alert_rules import alert_rules
from corral.model.device import Device, Node
from corral.model.errors import Refused, nearest
from corral.model.fact import SiteArranged
from corral.model.queue import Limits, Pool, Queue, Quota
from corral.model.view import View
from corral.scheduling.contradictions import contradictions
from corral.scheduling.policy import POLICIES, SCORE_NAMES, Policy
from corral.sharing.arrange import idle_rules

DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class SiteSetup:
    """What a site's settings mean on its devices.

    Attributes:
        observation: what the ledger puts into the view.
        remarks: what an administrator should know, a sentence each. The server works all the same.
    """

    observation: SiteArranged
    remarks: tuple[str, ...] = ()


def first_view(settings: Settings) -> View:
    """An empty cluster, with what the site says of how it is counted."""
    return View(
        usage_half_life_s=settings.fair_share_half_life_s,
        availability_memory_weight=settings.availability_memory_weight,
    )


def site_setup(
    settings: Settings, nodes: Iterable[Node] | None, policies: Mapping[str, Policy] = POLICIES
) -> SiteSetup:
    """What the settings mean on these nodes. With None, pools keep their GPUs as they are written and none are counted.

    Raises Refused, listing everything in the settings that contradicts itself.
    """
    if settings.algorithm not in policies:
        hint = nearest(settings.algorithm, policies)
        words = f"scheduling.algorithm: there is no {settings.algorithm!r}; {hint}"
        raise Refused(_placed(settings, "algorithm", words), field="algorithm")
    for name, _ in settings.placement:
        if name not in SCORE_NAMES:
            words = f"placement: there is no score {name!r}; {nearest(name, SCORE_NAMES)}"
            raise Refused(_placed(settings, "placement", words), field="placement")
    queues = _queues(settings)
    projects = {project.name: project for project in settings.projects}
    devices = None if nodes is None else _in_order(nodes)
    pools = _pools(settings, devices)
    wrong = contradictions(queues, projects, {pool.name: pool for pool in pools}, policies)
    if wrong:
        raise Refused("; ".join(_placed(settings, f"{one.kind} {one.name}", str(one)) for one in wrong))
    limits = Limits(
        max_running_jobs=settings.most_running_jobs,
        of_user=_of_user(settings),
        max_queue_size=settings.max_queue_size,
        max_time_limit_s=settings.max_job_duration_s,
        default_priority=settings.default_priority,
        default_retries=settings.default_retries,
        priority_range=settings.priority_range,
    )
    rules = alert_rules(settings)
    observation = SiteArranged(tuple(queues.values()), settings.projects, pools, limits, rules)
    return SiteSetup(observation, tuple(_remarks(settings, devices)))


def _of_user(settings: Settings) -> Quota:
    if settings.max_milli_per_user is None:
        return settings.user_quota
    return replace(settings.user_quota, share_milli=settings.max_milli_per_user)


def _placed(settings: Settings, what: str, words: str) -> str:
    """The words, after the file and line that they are about, if it is in a file."""
    place = settings.places.get(what)
    return words if place is None else f"{place}: {words}"


def _remarks(settings: Settings, devices: list[Device] | None) -> Iterator[str]:
    if settings.strategy is PoolStrategy.HYBRID and all(pool.gpus for pool in settings.pools):
        yield (
            f"allocation.reserved_ratio {settings.reserved_ratio:g} reserves nothing yet: a pool that names users or "
            "projects, but no gpus, would have that part"
        )
    if devices is None:
        return
    if settings.expected_gpus is not None and settings.expected_gpus != len(devices):
        yield f"cluster.total_gpus expects {settings.expected_gpus} GPUs, but there are {len(devices)}"
    known = ", ".join(str(device.index) for device in devices) or "none"
    for plan in settings.pools:
        for name in plan.gpus:
            # It may have fallen off the bus: that must not keep a server from starting.
            if not _named(name, devices):
                yield f"pool {plan.name}: GPU {name} is not here and is left out (there are {known})"
    models = ", ".join(sorted({device.model for device in devices}))
    there = f"{known}: {models}" if devices else known
    for key, rules in (("sharing", settings.sharing), ("vgpu", settings.vgpu)):
        for which in idle_rules([which for which, _ in rules], devices):
            yield f"{key}: no GPU here is {which}, by index, UUID or model; the line is idle (there are {there})"
    least = settings.min_compute
    if least is not None and not any((device.compute_capability or (0, 0)) >= least for device in devices):
        yield f"min_compute_capability {least[0]}.{least[1]} keeps back every GPU here (there are {there})"


def _queues(settings: Settings) -> dict[str, Queue]:
    """The site's queues. The default queue is always among them."""
    queues = {queue.name: queue for queue in settings.queues}
    default = Queue(DEFAULT_QUEUE, settings.algorithm, preempts=settings.enable_preemption)
    return {DEFAULT_QUEUE: default} | queues


def _in_order(nodes: Iterable[Node]) -> list[Device]:
    return [
        device
        for node in sorted(nodes, key=lambda node: node.name)
        for device in sorted(node.devices, key=lambda device: (device.index, device.uuid))
    ]


def _pools(settings: Settings, devices: list[Device] | None) -> tuple[Pool, ...]:
    """The pools with their devices, or as written if `devices` is None. Raises Refused if the strategy forbids them."""
    if settings.pools and settings.strategy is PoolStrategy.DYNAMIC:
        words = "allocation.strategy dynamic sets no GPUs apart, but there are pools; take static or hybrid"
        raise Refused(_placed(settings, "strategy", words))
    rest = [plan.name for plan in settings.pools if not plan.gpus]
    if len(rest) > 1:
        words = f"pools {' and '.join(rest)} all have the reserved part of the GPUs; say the gpus of all but one"
        raise Refused(_placed(settings, f"pool {rest[1]}", words))
    lend = settings.strategy is PoolStrategy.HYBRID
    return tuple(
        Pool(
            plan.name,
            plan.gpus if devices is None else _devices_of(plan, settings, devices),
            plan.users,
            plan.projects,
            lend if plan.lends is None else plan.lends,
        )
        for plan in settings.pools
    )


def _devices_of(plan: PoolPlan, settings: Settings, devices: list[Device]) -> tuple[str, ...]:
    if plan.gpus:
        return tuple(device.uuid for name in plan.gpus for device in _named(name, devices))
    named = {name for other in settings.pools for name in other.gpus}
    left = [device.uuid for device in devices if not named & {device.uuid, str(device.index)}]
    return tuple(left[: int(len(devices) * settings.reserved_ratio)])


def _named(name: str, devices: list[Device]) -> list[Device]:
    return [device for device in devices if name in (device.uuid, str(device.index))]
