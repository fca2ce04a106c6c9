"""Alert rules, the alerts that fire, and silences."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.config import Settings
    from corral.core.control.events.rows_of_facts import RowsOfFact
    from corral.core.model.fact import Observation
    from corral.core.model.slice import SliceType
    from corral.features.building import Built, CoreDoors


class AlertsFeature(Feature):
    """Evaluates alert rules, and sends alerts through channels."""

    name = "alerts"
    needs = ("channels", "history")
    commands = (
        (
            "Server and site",
            "alerts",
            "corral.features.alerts.commands.AlertsCommand",
            "List active alerts; acknowledge and silence them.",
        ),
    )

    def slices(self) -> Sequence[SliceType]:
        from corral.features.alerts.slice import AlertsSlice

        return (AlertsSlice,)

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.alerts.routes import router

        return (router,)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.alerts import answers, bodies

        return (answers, bodies)

    def topics(self) -> Mapping[str, RowsOfFact]:
        from corral.features.alerts.event_rows import of_alerts

        return {"alerts": of_alerts}

    def arranged(self, settings: Settings) -> Sequence[Observation]:
        from corral.features.alerts.alert_rules import alert_rules
        from corral.features.alerts.facts import AlertRulesArranged

        return (AlertRulesArranged(alert_rules(settings)),)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.alerts.build import build

        return build(core, offers)


FEATURE = AlertsFeature()
