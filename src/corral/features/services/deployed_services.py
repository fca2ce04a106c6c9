"""The present state of a service that Corral deployed, read from its object on the API server. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.core.model.units import is_whole
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.inventory.pod_rules import Affinity, affinity_in
from corral.features.services.manifests import GPUS_ANNOTATION, NODE_ANNOTATION
from corral.features.services.service_kinds import ServiceKind
from corral.features.services.service_status import ServiceState, state_of


@dataclass(frozen=True, slots=True)
class DeployedService:
    """One service.

    Attributes:
        model: the model's name, or its storage URI.
        gpus: the GPUs that each of its pods requests; None if unknown.
        node: the node chosen for it; None if Kubernetes decided.
        affinity: whether its pods prefer or require that node now; None for neither.
    """

    via: str
    namespace: str
    name: str
    model: str
    runtime: str
    gpus: int | None
    node: str | None
    affinity: Affinity | None
    state: ServiceState


def deployed_service(kind: ServiceKind, item: Mapping[str, Any]) -> DeployedService:
    """Read an InferenceService object, whose fields may have been changed by others."""
    metadata, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
    noted = mapping(metadata.get("annotations"))
    predictor = mapping(spec.get("predictor"))
    model = mapping(spec.get("model")) or mapping(predictor.get("model"))
    runtime = spec.get("runtime", model.get("runtime"))
    gpus, node = str(noted.get(GPUS_ANNOTATION, "")), noted.get(NODE_ANNOTATION)
    return DeployedService(
        kind.via,
        str(metadata.get("namespace")),
        str(metadata.get("name")),
        str(model.get("name") or model.get("storageUri") or ""),
        str(mapping(runtime).get("name") or (runtime if isinstance(runtime, str) else "")),
        int(gpus) if is_whole(gpus) else None,
        node if isinstance(node, str) else None,
        affinity_in(mapping(spec.get("engine")) or predictor),
        state_of(item),
    )
