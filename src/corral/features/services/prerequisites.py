"""Checks what a service needs before it is made: its operator's definitions, its model and its runtime."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.core.model.errors import NotFound, Refused, nearest
from corral.engines.kubernetes.cluster.client import Cluster, Json, Selection
from corral.engines.kubernetes.cluster.errors import MissingRight, NoSuchObject
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.cluster.resource import NAMESPACES, ResourceType
from corral.engines.kubernetes.inventory.pod_rules import Rules
from corral.features.services.service_kinds import ServiceKind
from corral.features.services.service_wanted import ServiceWanted


@dataclass(frozen=True, slots=True)
class Prerequisites:
    """The prerequisites that were found.

    Attributes:
        runtime: its object; empty if it may not be read.
        rules: the runtime's rules for its pods.
        ready_nodes: the nodes that have the model; None if any will do, or if unknown.
        remarks: remarks for the user, in sentences.
    """

    runtime: Mapping[str, Any]
    rules: Rules
    ready_nodes: frozenset[str] | None
    remarks: tuple[str, ...]


def find_prerequisites(cluster: Cluster, kind: ServiceKind, wanted: ServiceWanted) -> Prerequisites:
    """Find the prerequisites of the service. Raises Refused, or NotFound with names similar to the missing one."""
    _require_definition(cluster, kind, wanted.namespace)
    remarks = []
    runtime = _runtime(cluster, kind, wanted)
    rules = kind.rules(runtime)
    ready_nodes = None
    if kind.models is not None:
        try:
            model = _found(cluster, kind.models, wanted.model_name, "model")
        except MissingRight as error:
            remarks.append(f"on which nodes the model is ready is not known: {error}")
        else:
            ready_nodes, remark = _ready_nodes(model, wanted.model_name)
            remarks += [remark] if remark else []
    return Prerequisites(runtime, rules, ready_nodes, tuple(remarks))


def _require_definition(cluster: Cluster, kind: ServiceKind, namespace: str) -> None:
    try:
        cluster.page(kind.services, Selection(namespace), limit=1)
    except MissingRight:
        return  # who may not list services may still be allowed to create one
    except NoSuchObject:
        raise NotFound(
            f"{kind.title} is not installed in this cluster: it knows no {kind.services}", field="via"
        ) from None
    try:
        cluster.get(NAMESPACES, namespace)
    except MissingRight:
        return
    except NoSuchObject:
        raise NotFound(
            f"there is no namespace {namespace}; create it (kubectl create namespace {namespace}) or name another with"
            " --namespace",
            field="namespace",
        ) from None


def _runtime(cluster: Cluster, kind: ServiceKind, wanted: ServiceWanted) -> Mapping[str, Any]:
    """Return the runtime: a runtime of the namespace goes before a runtime of the cluster."""
    for resource in reversed(kind.runtimes[1:]):
        try:
            runtime = cluster.get(resource, wanted.runtime_name, wanted.namespace)
            break
        except (NoSuchObject, MissingRight):
            continue
    else:
        runtime = _found(cluster, kind.runtimes[0], wanted.runtime_name, "runtime")
    if mapping(runtime.get("spec")).get("disabled") is True:
        raise Refused(f"the runtime {wanted.runtime_name} is disabled", field="runtime")
    return runtime


def _found(cluster: Cluster, resource: ResourceType, name: str, field: str) -> Json:
    try:
        return cluster.get(resource, name)
    except NoSuchObject:
        try:
            others = [str(mapping(one.get("metadata")).get("name")) for one in cluster.list(resource)]
        except (NoSuchObject, MissingRight):
            others = []
        hint = nearest(name, others) or "there are none"
        raise NotFound(f"there is no {field} {name} ({resource.kind}); {hint}", field=field) from None


def _ready_nodes(model: Mapping[str, Any], name: str) -> tuple[frozenset[str], str | None]:
    """Return the nodes that have the model, and a remark if none has it."""
    status = mapping(model.get("status"))
    state = status.get("state")
    if state == "Failed":
        raise Refused(f"the model {name} has failed to load on the nodes (state Failed)", field="model")
    listed = status.get("nodesReady")
    nodes = frozenset(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else frozenset()
    if nodes:
        return nodes, None
    return nodes, f"the model {name} is not ready on any node yet (state {state or 'not told'})"
