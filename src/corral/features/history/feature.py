"""The history of devices and of their holders, and key figures."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class HistoryFeature(Feature):
    """Records the readings of devices, and answers from the record."""

    name = "history"
    commands = (
        (
            "Plan and measure",
            "kpis",
            "corral.features.history.commands.KpisCommand",
            "Show key figures: use of GPUs, how jobs fared, health.",
        ),
    )

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.history.routes import router

        return (router,)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.history import answers, bodies

        return (answers, bodies)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.history.build import build

        return build(core)


FEATURE = HistoryFeature()
