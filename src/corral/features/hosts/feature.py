"""Hosts that are joined by SSH: add, list, check and remove them."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class HostsFeature(Feature):
    """Lets administrators join hosts to the pool by SSH."""

    name = "hosts"
    commands = (
        (
            "GPUs and nodes",
            "hosts",
            "corral.features.hosts.commands.HostsCommand",
            "List the hosts that are joined by SSH.",
        ),
    )

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.hosts.routes import router

        return (router,)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.hosts import answers, bodies

        return (answers, bodies)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.hosts.build import build

        return build(core)


FEATURE = HostsFeature()
