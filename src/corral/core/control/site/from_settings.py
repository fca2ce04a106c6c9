"""Turns a site's settings into queues, projects, pools and limits, which the planner and submissions go by."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from corral.config import Settings
from corral.config.mistakes import Collecting
from corral.core.control.site.alert_rules import alert_rules
from corral.core.control.site.pool_settings import placed, pools_of
from corral.core.control.site.remarks import site_remarks
from corral.core.model.alerts.alert_rule import AlertRule
from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused, nearest
from corral.core.model.fact import SiteArranged
from corral.core.model.queues.queue import Limits, Pool, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.contradictions import contradictions, pool_clashes
from corral.core.scheduling.policy import POLICIES, SCORE_NAMES, Policy
from corral.features.alerts.facts import AlertRulesArranged

DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class SiteSetup:
    """What a site's settings mean on its devices.

    Attributes:
        observation: what the ledger puts into the view.
        alert_rules: what it puts into the slice of alerts.
        remarks: what an administrator should know, a sentence each. The server works all the same.
    """

    observation: SiteArranged
    alert_rules: AlertRulesArranged
    remarks: tuple[str, ...] = ()


def first_view(settings: Settings) -> View:
    """An empty cluster, with what the site says of how it is counted."""
    return View(
        usage_half_life_s=settings.fair_share_half_life_s,
        availability_memory_weight=settings.availability_memory_weight,
    )


def site_setup(
    settings: Settings, nodes: Collection[Node] | None, policies: Mapping[str, Policy] = POLICIES, *, silent: int = 0
) -> SiteSetup:
    """What the settings mean on these nodes. With None they are not known, and nothing is said of them.

    `silent` nodes belong to the site besides, and have not told what they have. Raises Refused, listing everything in
    the settings that contradicts itself.
    """
    queues = _queues(settings)
    projects = {project.name: project for project in settings.projects}
    pools: dict[str, Pool] = {}
    rules: tuple[AlertRule, ...] = ()
    wrong = Collecting()
    with wrong.at():
        _check_names(settings, policies)
    with wrong.at():
        pools = {pool.name: pool for pool in pools_of(settings)}
    with wrong.at():
        rules = alert_rules(settings)
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
        priority_range=settings.priorities_of_users,
        pass_unknown_limit_s=settings.pass_unknown_limit_s,
        pass_unknown_until_s=settings.pass_unknown_until_s,
    )
    observation = SiteArranged(tuple(queues.values()), settings.projects, tuple(pools.values()), limits)
    return SiteSetup(observation, AlertRulesArranged(rules), tuple(site_remarks(settings, nodes)))


def _check_names(settings: Settings, policies: Mapping[str, Policy]) -> None:
    """Raises Refused for a policy or a score of the site that there is not."""
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
    """The site's queues. The default queue is always among them; those that do not say so preempt as the site does."""
    queues = {queue.name: queue for queue in (Queue(DEFAULT_QUEUE, settings.algorithm), *settings.queues)}
    if not settings.enable_preemption:
        return queues
    return {name: queue if queue.preempts is False else replace(queue, preempts=True) for name, queue in queues.items()}
