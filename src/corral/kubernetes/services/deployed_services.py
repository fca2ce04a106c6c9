"""A service that Corral has deployed, as it stands, read from what the API server has of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.kubernetes.cluster.objects import mapping
from corral.kubernetes.services.manifests import GPUS_ANNOTATION, NODE_ANNOTATION
from corral.kubernetes.services.pod_rules import Affinity, affinity_in
from corral.kubernetes.services.service_kinds import ServiceKind
from corral.kubernetes.services.service_status import ServiceState, state_of
from corral.model.units import is_whole


@dataclass(frozen=True, slots=True)
class DeployedService:
    """One service.

    Attributes:
        model: the model's name, or its storage URI.
        gpus: that each of its pods asks for; None where that is not noted.
        node: that was chosen for it; None where Kubernetes decided.
        affinity: how firmly its pods are to run there now; None: not at all.
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
    """The service in an InferenceService object, whose fields others may have changed."""
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
