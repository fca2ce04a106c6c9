"""The extender of kube-scheduler."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class KubeSchedulerFeature(Feature):
    """Serves sites that keep kube-scheduler: it asks Corral which nodes a pod may have, and has Corral bind it."""

    name = "kube_scheduler"

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.kube_scheduler.routes import extender_routes, other_names_routes

        return (extender_routes, other_names_routes)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.kube_scheduler.build import build

        return build(core)


FEATURE = KubeSchedulerFeature()
