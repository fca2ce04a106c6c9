"""The admission webhook of a cluster."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.features.building import Built, CoreDoors


class AdmissionFeature(Feature):
    """Tells an API server what to set in pods of namespaces that opt in, and which can never run."""

    name = "admission"

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.admission.routes import router

        return (router,)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.engines.kubernetes.admission.pod_admission import PodAdmission
        from corral.features.admission.admission_calls import AdmissionCalls
        from corral.features.building import Built

        named = core.settings.kubernetes
        admission = core.of_engine.find(PodAdmission)
        calls = AdmissionCalls(
            admission, callers=named.admission_callers, without_certificate=named.admission_without_certificate
        )
        return Built(offers=(calls,))


FEATURE = AdmissionFeature()
