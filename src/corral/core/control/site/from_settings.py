"""Converts a site's settings to queues, projects, pools and limits for the planner and submissions."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from corral.config import Settings
from corral.config.mistakes import Collecting
from corral.core.control.site.pool_settings import placed, pools_of
from corral.core.control.site.remarks import site_remarks
from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused, nearest
from corral.core.model.fact import Observation, SiteArranged
from corral.core.model.queues.queue import Limits, Pool, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.contradictions import contradictions, pool_clashes
from corral.core.scheduling.policy import POLICIES, SCORE_NAMES, Policy

DEFAULT_QUEUE = "default"

Arrange = Callable[[Settings], Sequence[Observation]]
"""Makes the observations for a feature's slice that follow from the settings. Raises Refused."""


@dataclass(frozen=True, slots=True)
class SiteSetup:
    """The consequences of a site's settings for its devices.

    Attributes:
        observation: the observation for the ledger's view.
        of_features: the observations for the slices of features.
        remarks: sentences for administrators about settings that work but may be a mistake.
    """

    observation: SiteArranged
    of_features: tuple[Observation, ...] = ()
    remarks: tuple[str, ...] = ()


def first_view(settings: Settings) -> View:
    """Return an empty view with the site's parameters for fair share and availability."""
    return View(
        usage_half_life_s=settings.fair_share_half_life_s,
        availability_memory_weight=settings.availability_memory_weight,
    )


def site_setup(
    settings: Settings,
    nodes: Collection[Node] | None,
    policies: Mapping[str, Policy] = POLICIES,
    *,
    silent: int = 0,
    arrange: Iterable[Arrange] = (),
) -> SiteSetup:
    """Return the setup by these settings and nodes. With None the nodes are unknown, and nothing is checked against
    them.

    `silent` is the number of nodes whose devices are not known yet. `arrange` are the functions of features.

    Raises Refused with a list of all contradictions in the settings.
    """
    queues = _queues(settings)
    projects = {project.name: project for project in settings.projects}
    pools: dict[str, Pool] = {}
    of_features: list[Observation] = []
    wrong = Collecting()
    with wrong.at():
        _check_names(settings, policies)
    with wrong.at():
        pools = {pool.name: pool for pool in pools_of(settings)}
    for arranged in arrange:
        with wrong.at():
            of_features += arranged(settings)
    found = contradictions(queues, projects, pools, policies)
    if nodes is not None and not found:
        found = pool_clashes(pools, {node.name: node for node in nodes}, silent)
    for one in found:
        with wrong.at():
            raise Refused(placed(settings, f"{one.kind} {one.name}", str(one)))
    wrong.tell()
    limits = Limits(
        max_running_jobs=settings.most_running_jobs,
        of_user=_of_user(settings),
        max_queue_size=settings.max_queue_size,
        max_time_limit_s=settings.max_job_duration_s,
        default_priority=settings.default_priority,
        default_retries=settings.default_retries,
        default_checkpoint_every_s=settings.default_checkpoint_every_s,
        priority_range=settings.priorities_of_users,
        pass_unknown_limit_s=settings.pass_unknown_limit_s,
        pass_unknown_until_s=settings.pass_unknown_until_s,
        power_budget_w=settings.power_budget_w,
        site_retries=settings.site_retries,
        pack_jobs=settings.pack_jobs,
        pack_slowdown=settings.pack_slowdown,
    )
    observation = SiteArranged(tuple(queues.values()), settings.projects, tuple(pools.values()), limits)
    return SiteSetup(observation, tuple(of_features), tuple(site_remarks(settings, nodes)))


def _check_names(settings: Settings, policies: Mapping[str, Policy]) -> None:
    """Raise Refused for an unknown policy or placement score."""
    if settings.algorithm not in policies:
        hint = nearest(settings.algorithm, policies)
        words = f"scheduling.algorithm: there is no {settings.algorithm!r}; {hint}"
        raise Refused(placed(settings, "algorithm", words), field="algorithm")
    for name, _ in settings.placement:
        if name not in SCORE_NAMES:
            words = f"placement: there is no score {name!r}; {nearest(name, SCORE_NAMES)}"
            raise Refused(placed(settings, "placement", words), field="placement")


def _of_user(settings: Settings) -> Quota:
    if settings.max_milli_per_user is None:
        return settings.user_quota
    return replace(settings.user_quota, share_milli=settings.max_milli_per_user)


def _queues(settings: Settings) -> dict[str, Queue]:
    """Return the site's queues, always with the default queue. If preemption is enabled, it holds for each queue
    that does not refuse it.
    """
    queues = {queue.name: queue for queue in (Queue(DEFAULT_QUEUE, settings.algorithm), *settings.queues)}
    if not settings.enable_preemption:
        return queues
    return {name: queue if queue.preempts is False else replace(queue, preempts=True) for name, queue in queues.items()}
