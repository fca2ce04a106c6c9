"""The InferenceService that OME or KServe gets: only fields that every version of theirs knows. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.units import is_whole
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resource, gpu_resources
from corral.engines.kubernetes.cluster.objects import mapping, sequence
from corral.engines.kubernetes.inventory.pod_rules import Rules, affinity_for, with_preferences
from corral.features.services.holds import MOST_PODS
from corral.features.services.parameters import merged_arguments, runtime_arguments
from corral.features.services.service_env import env_entries
from corral.features.services.service_wanted import ModelClaim, ServiceWanted

OME_GROUP = "ome.io"
KSERVE_GROUP = "serving.kserve.io"

MANAGED_BY = {"app.kubernetes.io/managed-by": "corral"}
"""The label of every service that was deployed here."""

NODE_ANNOTATION, GPUS_ANNOTATION = "corral.dev/node", "corral.dev/gpus"

_CLAIM = "corral-model"
"""The name of the volume that a claim becomes."""

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MOST_NAME = 50
"""The longest name. Operators add words such as `-engine`, and names and labels of pods have at most 63 characters."""


@dataclass(frozen=True, slots=True)
class ServiceShape:
    """The pods of a service: `pods` of them, which start together, each with so many GPUs of its node."""

    gpus: int
    pods: int = 1


@dataclass(frozen=True, slots=True)
class NodeWish:
    """The node that a service is to run on, by its name and its hostname label.

    `hostnames_beside` are those of the other nodes of a service over several.
    """

    node_name: str
    hostname: str
    required: bool = False
    hostnames_beside: tuple[str, ...] = ()

    @property
    def hostnames(self) -> tuple[str, ...]:
        """The hostname label of each node, once."""
        return tuple(dict.fromkeys((self.hostname, *self.hostnames_beside)))


@dataclass(frozen=True, slots=True)
class PodPlacing:
    """The fields of a service's pods that decide about their nodes.

    Attributes:
        wish: the node that was chosen for them; None if none was.
        preferences: terms of the nodes that its user prefers, each as Kubernetes writes it.
        scheduler: the scheduler that binds them; None is Kubernetes' own.
        annotations: those of the pods, for their scheduler.
    """

    wish: NodeWish | None = None
    preferences: tuple[Mapping[str, Any], ...] = ()
    scheduler: str | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)

    def fields(self, rules: Rules) -> dict[str, Any]:
        """Return the fields of a pod's specification. Its operator lays them over those of its runtime's `rules`."""
        fields: dict[str, Any] = {}
        preferring = with_preferences(rules, self.preferences)
        if self.wish is not None:
            fields["affinity"] = affinity_for(*self.wish.hostnames, required=self.wish.required, rules=preferring)
        elif self.preferences:
            fields["affinity"] = preferring["affinity"]
        if self.scheduler is not None:
            fields["schedulerName"] = self.scheduler
        return fields


KUBERNETES_DECIDES = PodPlacing()


def checked_name(name: str) -> str:
    """Return the name if it is valid for a service. Raises Refused with a valid name similar to it."""
    if _NAME.fullmatch(name) and len(name) <= _MOST_NAME:
        return name
    could = re.sub(r"-+", "-", re.sub(r"[^a-z0-9]", "-", name.lower())).strip("-")[:_MOST_NAME].rstrip("-")
    hint = f", such as {could}" if _NAME.fullmatch(could) else ""
    raise Refused(
        f"{name!r} cannot be a service's name: up to {_MOST_NAME} lower-case letters, digits and '-', a letter first,"
        f" no '-' at the end{hint}",
        field="name",
    )


def ome_service(
    wanted: ServiceWanted, runtime: Mapping[str, Any], placing: PodPlacing = KUBERNETES_DECIDES
) -> dict[str, Any]:
    """Return OME's InferenceService. `runtime` is the ClusterServingRuntime; a service's arguments would replace its
    own.
    """
    rules = ome_rules(runtime)
    shape = service_shape(wanted.asked_gpus, rules)
    engine: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 1}
    if placing.annotations:
        engine["annotations"] = dict(placing.annotations)
    if shape.pods == 1:
        engine |= _ome_pod(wanted, rules, placing, shape)
    else:
        engine["leader"] = _ome_pod(wanted, mapping(rules.get("leader")), placing, shape)
        engine["worker"] = {"size": shape.pods - 1} | _ome_pod(wanted, mapping(rules.get("worker")), placing, shape)
    spec = {
        "model": {"name": wanted.model_name, "kind": "ClusterBaseModel", "apiGroup": OME_GROUP},
        "runtime": {"name": wanted.runtime_name, "kind": "ClusterServingRuntime", "apiGroup": OME_GROUP},
        "engine": engine,
    }
    return _service(OME_GROUP, _meta(wanted, placing.wish, shape), spec)


def _ome_pod(wanted: ServiceWanted, rules: Rules, placing: PodPlacing, shape: ServiceShape) -> dict[str, Any]:
    """Return one kind of pods of a service: what is laid over the runtime's `rules` for these pods."""
    own = mapping(rules.get("runner"))
    pod, runner = placing.fields(rules), _container(wanted, shape)
    if added := runner.pop("args", None):
        runner["args"] = merged_arguments(_strings(own.get("command")), _strings(own.get("args")), added)
    if wanted.env:
        kept = [one for one in sequence(own.get("env")) if one.get("name") not in wanted.env]
        runner["env"] = [*kept, *runner["env"]]
    if wanted.claim is not None:
        pod["volumes"] = [*sequence(rules.get("volumes")), claim_volume(wanted.claim)]
        runner["volumeMounts"] = [*sequence(own.get("volumeMounts")), claim_mount(wanted.claim)]
    if runner:
        pod["runner"] = {"name": "ome-container", **runner}
    return pod


def kserve_service(
    wanted: ServiceWanted, runtime: Mapping[str, Any], placing: PodPlacing = KUBERNETES_DECIDES
) -> dict[str, Any]:
    """Return KServe's InferenceService. `runtime` is the serving runtime; its first model format is the service's.

    KServe appends a service's arguments to the runtime's. Knative allows no affinity and no other scheduler, so with
    one of these KServe makes an ordinary Deployment.
    """
    model: dict[str, Any] = {"modelFormat": {"name": _model_format(runtime)}, "runtime": wanted.runtime_name}
    if wanted.claim is not None:
        model["storageUri"] = f"pvc://{wanted.claim.name}/{wanted.claim.sub_path}".rstrip("/")
    elif "://" in wanted.model_name:
        model["storageUri"] = wanted.model_name
    rules = kserve_rules(runtime)
    shape = service_shape(wanted.asked_gpus, rules)
    model |= _container(wanted, shape)
    if any("{{" in argument for argument in model.get("args", ())):
        raise Refused("KServe reads '{{' in arguments as a template of its own; leave it out", field="parameters")
    placed = placing.fields(rules)
    predictor: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 1, "model": model, **placed}
    if placing.annotations:
        predictor["annotations"] = dict(placing.annotations)
    metadata = _meta(wanted, placing.wish, shape)
    if placed:
        metadata["annotations"]["serving.kserve.io/deploymentMode"] = "Standard"
    return _service(KSERVE_GROUP, metadata, {"predictor": predictor})


def ome_rules(runtime: Mapping[str, Any]) -> Rules:
    """Return the pod rules of the engine in an OME runtime."""
    return mapping(mapping(runtime.get("spec")).get("engineConfig"))


def kserve_rules(runtime: Mapping[str, Any]) -> Rules:
    """Return the pod rules in a KServe runtime."""
    return mapping(runtime.get("spec"))


def service_shape(asked_gpus: int | None, rules: Rules) -> ServiceShape:
    """Return the pods of a service with so many GPUs in all; None are those that its runtime's `rules` name, else 1.

    A runtime with a worker has a leader and as many workers as it says. Raises Refused for GPUs that these pods cannot
    share evenly.
    """
    worker = rules.get("worker")
    if not isinstance(worker, Mapping):
        return ServiceShape(asked_gpus or runtime_gpus(rules) or 1)
    size = worker.get("size", 1)
    if type(size) is not int or not 1 <= size < MOST_PODS:
        raise Refused(f"the runtime names {size!r:.40} workers: 1 to {MOST_PODS - 1} can be placed", field="runtime")
    if asked_gpus is None:
        return ServiceShape(runtime_gpus(worker) or 1, size + 1)
    if asked_gpus % (size + 1):
        raise Refused(
            f"{asked_gpus} GPUs cannot be shared evenly by the {size + 1} pods of the runtime, a leader and its "
            f"workers; ask for a multiple of {size + 1}",
            field="gpus",
        )
    return ServiceShape(asked_gpus // (size + 1), size + 1)


def runtime_gpus(rules: Rules) -> int | None:
    """Return the number of GPUs that the containers of a runtime request themselves, or None if unknown."""
    containers = sequence(rules.get("containers")) or [mapping(rules.get("runner"))]
    limits = [mapping(mapping(one.get("resources")).get("limits")) for one in containers]
    asked = [one.get(resource) for one in limits for resource in gpu_resources()]
    counts = [int(str(value)) for value in asked if value is not None and is_whole(str(value))]
    return sum(counts) if counts else None


def _service(group: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1beta1", "kind": "InferenceService", "metadata": metadata, "spec": spec}


def _container(wanted: ServiceWanted, shape: ServiceShape) -> dict[str, Any]:
    """The arguments of the parameters, and a pod's GPUs of those that they ask for; the runtime's own if these name
    none.
    """
    container: dict[str, Any] = {}
    if arguments := runtime_arguments(wanted.parameters):
        container["args"] = arguments
    if wanted.env:
        container["env"] = env_entries(wanted.name, wanted.annotations, wanted.env)
    if wanted.asked_gpus is not None:
        count = {gpu_resource(None): str(shape.gpus)}
        container["resources"] = {"limits": count, "requests": dict(count)}
    return container


def _meta(wanted: ServiceWanted, wish: NodeWish | None, shape: ServiceShape) -> dict[str, Any]:
    annotations = {**wanted.annotations, GPUS_ANNOTATION: str(shape.gpus * shape.pods)}
    if wanted.claim is not None:
        annotations |= wanted.claim.annotations
    if wish is not None:
        annotations[NODE_ANNOTATION] = wish.node_name
    return {
        "name": checked_name(wanted.name),
        "namespace": wanted.namespace,
        "labels": {**wanted.labels, **MANAGED_BY},
        "annotations": annotations,
    }


def claim_volume(claim: ModelClaim) -> dict[str, Any]:
    """Return the volume of a pod that a claim becomes."""
    return {"name": _CLAIM, "persistentVolumeClaim": {"claimName": claim.name}}


def claim_mount(claim: ModelClaim) -> dict[str, Any]:
    """Return the place of that volume in a container."""
    mount = {"name": _CLAIM, "mountPath": claim.mount_path, "readOnly": True}
    return mount | ({"subPath": claim.sub_path} if claim.sub_path else {})


def _model_format(runtime: Mapping[str, Any]) -> str:
    names = [one.get("name") for one in sequence(mapping(runtime.get("spec")).get("supportedModelFormats"))]
    found = next((name for name in names if isinstance(name, str) and name), None)
    if found is None:
        name = mapping(runtime.get("metadata")).get("name")
        raise Refused(f"the runtime {name} names no model format that it supports", field="runtime")
    return found


def _strings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
