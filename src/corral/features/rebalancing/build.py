"""Builds the rebalancing of a server."""

from corral.core.control.deciding.controller import Planners
from corral.features.building import Built, CoreDoors
from corral.features.rebalancing.rebalancing import Rebalancing

_LOOK_EACH_S = 30.0


def build(core: CoreDoors) -> Built:
    """The times of moves, and the thread that begins them at night."""
    planners = Planners(core.ledger, core.policies)
    rebalancing = Rebalancing(core.ledger, core.clock, planners.alike, core.settings.rebalance)
    return Built(offers=(rebalancing,), patrols=(core.patrol("rebalance", rebalancing.look, _LOOK_EACH_S),))
