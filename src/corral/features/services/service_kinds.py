"""OME and KServe: the resource types of their services, models and runtimes, and the manifests of their services."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from corral.core.model.errors import Refused
from corral.engines.kubernetes.cluster.resource import ResourceType
from corral.engines.kubernetes.inventory.pod_rules import Rules
from corral.features.services.manifests import (
    KSERVE_GROUP,
    OME_GROUP,
    PodPlacing,
    kserve_rules,
    kserve_service,
    ome_rules,
    ome_service,
)
from corral.features.services.service_wanted import ServiceWanted


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """One operator of model services.

    Attributes:
        via: its word on the command line.
        title: its name for people.
        models: the resource types of its models; None if services name their models by address.
        runtimes: the resource types of its runtimes, first that of the whole cluster.
        pod_label: the label with the service's name on its pods.
        container: the name of the server's container in a pod.
        rules: returns a runtime's rules for its pods.
        manifest: returns the object of a requested service, with its runtime and the places of its pods.
    """

    via: str
    title: str
    services: ResourceType
    models: ResourceType | None
    runtimes: tuple[ResourceType, ...]
    pod_label: str
    container: str
    rules: Callable[[Mapping[str, Any]], Rules]
    manifest: Callable[[ServiceWanted, Mapping[str, Any], PodPlacing], dict[str, Any]]


OME = ServiceKind(
    "ome",
    "OME",
    ResourceType(OME_GROUP, "v1beta1", "inferenceservices", "InferenceService"),
    ResourceType(OME_GROUP, "v1beta1", "clusterbasemodels", "ClusterBaseModel", namespaced=False),
    (ResourceType(OME_GROUP, "v1beta1", "clusterservingruntimes", "ClusterServingRuntime", namespaced=False),),
    "ome.io/inferenceservice",
    "ome-container",
    ome_rules,
    ome_service,
)
KSERVE = ServiceKind(
    "kserve",
    "KServe",
    ResourceType(KSERVE_GROUP, "v1beta1", "inferenceservices", "InferenceService"),
    None,
    (
        ResourceType(KSERVE_GROUP, "v1alpha1", "clusterservingruntimes", "ClusterServingRuntime", namespaced=False),
        ResourceType(KSERVE_GROUP, "v1alpha1", "servingruntimes", "ServingRuntime"),
    ),
    "serving.kserve.io/inferenceservice",
    "kserve-container",
    kserve_rules,
    kserve_service,
)
KINDS = {kind.via: kind for kind in (OME, KSERVE)}


def kind_via(via: str) -> ServiceKind:
    """Return the kind with this word. Raises Refused."""
    if via not in KINDS:
        raise Refused(f"{via!r} is not known; services are deployed by {' or '.join(KINDS)}", field="via")
    return KINDS[via]
