"""Reports of agents on the nodes of a cluster."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class AgentReportsFeature(Feature):
    """Takes what agents on a cluster's nodes say of their devices."""

    name = "agent_reports"
    cluster_checks = (("agents", "corral.features.agent_reports.agent_check.check_agents"),)

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.agent_reports.routes import router

        return (router,)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.engines.kubernetes.agent_reports.report_taker import ReportTaker
        from corral.features.agent_reports.report_calls import ReportCalls
        from corral.features.building import Built

        return Built(offers=(ReportCalls(core.of_engine.find(ReportTaker), core.clock),))


FEATURE = AgentReportsFeature()
