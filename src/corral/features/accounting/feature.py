"""GPU-hours: their holders, their use, and their cost."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class AccountingFeature(Feature):
    """Adds up the use of GPUs by users, projects and queues, from the ledger and from the meter of the history."""

    name = "accounting"
    needs = ("history",)
    commands = (
        (
            "Plan and measure",
            "usage",
            "corral.features.accounting.commands.UsageCommand",
            "Show GPU-hours used, and how well the shares were enforced.",
        ),
        (
            "Plan and measure",
            "report",
            "corral.features.accounting.commands.ReportCommand",
            "Show how granted GPUs were used, and what they cost.",
        ),
    )

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.accounting.routes import router

        return (router,)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.accounting import answers, bodies

        return (answers, bodies)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.accounting.build import build

        return build(core, offers)


FEATURE = AccountingFeature()
