"""Model services on Kubernetes."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_TITLE = "Model services on Kubernetes"
_COMMANDS = "corral.features.services.commands"


class ServicesFeature(Feature):
    """Deploys model services through OME and KServe. It needs no server."""

    name = "services"
    commands = (
        (_TITLE, "deploy", f"{_COMMANDS}.DeployCommand", "Deploy a model service on the node with the most idle GPUs."),
        (
            _TITLE,
            "deployments",
            f"{_COMMANDS}.DeploymentsCommand",
            "List the model services that Corral has deployed.",
        ),
        (
            _TITLE,
            "undeploy",
            f"{_COMMANDS}.UndeployCommand",
            "Remove a model service that Corral has deployed, and free its GPUs.",
        ),
    )
    cluster_checks = (
        ("services", "corral.features.services.service_checks.check_operators"),
        ("deployed", "corral.features.services.service_checks.check_services"),
    )

    def described(self) -> Sequence[ModuleType]:
        from corral.features.services import service_wanted

        return (service_wanted,)


FEATURE = ServicesFeature()
