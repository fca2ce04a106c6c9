"""Moves of running jobs, so that waiting jobs find room and nodes become empty."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class RebalancingFeature(Feature):
    """Lets the scheduler move running jobs for a while, at night or on request, and shows the moves beforehand."""

    name = "rebalancing"
    commands = (
        (
            "Server and site",
            "rebalance",
            "corral.features.rebalancing.commands.RebalanceCommand",
            "Move running jobs, to make room for others or to empty a node.",
        ),
    )

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.rebalancing.routes import router

        return (router,)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.rebalancing import answers

        return (answers,)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.rebalancing.build import build

        return build(core)


FEATURE = RebalancingFeature()
