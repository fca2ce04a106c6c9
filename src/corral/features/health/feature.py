"""The health of devices: a list, its history, an administrator's word, evidence."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.core.model.slice import SliceType
    from corral.features.building import Built, CoreDoors


class HealthFeature(Feature):
    """Shows which devices are sick and why, and lets administrators trust or test them."""

    name = "health"
    commands = (
        (
            "GPUs and nodes",
            "health",
            "corral.features.health.commands.HealthCommand",
            "List the GPUs that are sick or were of late, and why.",
        ),
    )

    def slices(self) -> Sequence[SliceType]:
        from corral.features.health.slice import HealthSlice

        return (HealthSlice,)

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.health.routes import router

        return (router,)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.health import answers

        return (answers,)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.health.build import build

        return build(core)


FEATURE = HealthFeature()
