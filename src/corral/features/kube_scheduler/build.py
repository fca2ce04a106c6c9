"""Builds the extender of a server whose nodes are those of a cluster."""

from functools import partial

from corral.core.scheduling.planner import Planner
from corral.engines.kubernetes.extender.extender import Extender
from corral.engines.kubernetes.extender.followed_planner import FollowedPlanner
from corral.engines.kubernetes.extender.placed_pods import PlacedPods
from corral.features.building import Built, CoreDoors
from corral.features.kube_scheduler.scheduler_calls import SchedulerCalls


def build(core: CoreDoors) -> Built:
    """The calls of kube-scheduler; all are refused where the nodes are no cluster's."""
    pods = core.of_engine.find(PlacedPods)
    extender = None
    if pods is not None:
        planner = FollowedPlanner(core.ledger, partial(Planner, policies=core.policies))
        extender = Extender(planner, pods, core.clock)
    named = core.settings.kubernetes
    return Built(
        offers=(SchedulerCalls(extender, pods, callers=named.extender_callers, by_proxy=named.extender_by_proxy),)
    )
