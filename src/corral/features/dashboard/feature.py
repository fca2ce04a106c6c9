"""The dashboard: the pages of `web/`, and the sessions of browsers."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class DashboardFeature(Feature):
    """Serves the pages, and lets browsers act for a user."""

    name = "dashboard"
    commands = (
        (
            "Look",
            "dashboard",
            "corral.features.dashboard.commands.DashboardCommand",
            "Open the dashboard in a browser.",
        ),
    )

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.dashboard.routes import file_router, login_router, router

        return (router, login_router, file_router)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.dashboard import answers, bodies

        return (answers, bodies)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.dashboard.build import build

        return build(core)


FEATURE = DashboardFeature()
