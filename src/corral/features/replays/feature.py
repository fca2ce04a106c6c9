"""Replays of past jobs under other policies."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class ReplaysFeature(Feature):
    """Runs the jobs of a period again under other policies."""

    name = "replays"

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.replays.routes import router

        return (router,)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.replays import answers, bodies

        return (answers, bodies)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.replays.build import build

        return build(core)


FEATURE = ReplaysFeature()
