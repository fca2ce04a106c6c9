"""A service as its InferenceService object shows it: what it is, and whether it is ready, or failed and why. Pure.

`status.observedGeneration` is of the Deployment behind it, so it is not compared with anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from corral.core.model.printable import printable
from corral.core.model.units import is_whole
from corral.engines.kubernetes.cluster.objects import mapping, sequence
from corral.engines.kubernetes.inventory.pod_rules import Affinity, affinity_in
from corral.features.services.manifests import GPUS_ANNOTATION, NODE_ANNOTATION
from corral.features.services.service_kinds import ServiceKind

_FAILED = frozenset({"BlockedByFailedLoad", "InvalidSpec"})
_MOST_WORDS = 600


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One service: its state, its operator's message, and its address once it is ready.

    `inner_url` is its address within the cluster.
    """

    state: Literal["ready", "loading", "failed"]
    why: str = ""
    url: str | None = None
    inner_url: str | None = None


def state_of(service: Mapping[str, Any]) -> ServiceState:
    """The state of the service `service`, as an API server gave it. `Ready` False is normal while a model loads."""
    status = mapping(service.get("status"))
    model = mapping(status.get("modelStatus"))
    transition = model.get("transitionStatus")
    if transition in _FAILED:
        return ServiceState("failed", _failure(str(transition), mapping(model.get("lastFailureInfo"))))
    conditions = sequence(status.get("conditions"))
    ready = next((one for one in conditions if one.get("type") == "Ready"), None)
    if ready is not None and ready.get("status") == "True":
        inner = _words(mapping(status.get("address")).get("url"))
        return ServiceState("ready", "", _words(status.get("url")) or None, inner or None)
    return ServiceState("loading", _obstacle(conditions))


def _failure(transition: str, info: Mapping[str, Any]) -> str:
    code = info.get("exitCode")
    parts = [_words(info.get("reason")), _words(info.get("message"))]
    if isinstance(code, int) and code:
        parts.append(f"exit code {code}")
    told = ": ".join(part for part in parts[:2] if part) + (f" ({parts[2]})" if len(parts) > 2 else "")
    return f"{transition}: {told}" if told else transition


def _obstacle(conditions: list[Mapping[str, Any]]) -> str:
    """Return the operator's message on the first condition that does not hold. `Ready` sums the others up, so it is
    last.
    """
    open_ones = [one for one in conditions if one.get("status") != "True"]
    open_ones.sort(key=lambda one: one.get("type") == "Ready")
    for one in open_ones:
        told = ": ".join(text for text in (_words(one.get("reason")), _words(one.get("message"))) if text)
        if told:
            return f"{_words(one.get('type'))} is {_words(one.get('status'))}: {told}"
    return f"{_words(open_ones[0].get('type'))} is not there yet" if open_ones else "its operator has said nothing yet"


def _words(value: Any) -> str:
    text = printable(" ".join(value.split())) if isinstance(value, str) else ""
    return text if len(text) <= _MOST_WORDS else text[: _MOST_WORDS - 1] + "…"


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
