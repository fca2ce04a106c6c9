"""The request of a model service's pods, as the planner reads it: its GPUs, and the rules for its nodes. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import (
    NAME_FIELD,
    IdleFirst,
    LabelExpression,
    Operator,
)
from corral.engines.kubernetes.cluster.amounts import NOTHING, Amounts, requests_of
from corral.engines.kubernetes.cluster.objects import mapping, sequence
from corral.engines.kubernetes.cluster.quantities import BadQuantity
from corral.engines.kubernetes.inventory.cluster_gpus import GPU_POD
from corral.engines.kubernetes.inventory.pod_placement_rules import node_rules
from corral.engines.kubernetes.inventory.pod_rules import Rules, preferred_terms, with_preferences
from corral.features.services.manifests import ServiceShape
from corral.features.services.selection import NodeSelection

_MIB = 1 << 20


def preferences_of(selection: NodeSelection) -> tuple[dict[str, Any], ...]:
    """Return the terms of the nodes that a selection prefers."""
    return preferred_terms(selection.prefer_nodes, selection.prefer_labels)


def idle_rule(selection: NodeSelection) -> IdleFirst:
    """Return the ranking of nodes that a selection means."""
    return IdleFirst(selection.utilization_threshold, selection.memory_threshold, selection.whole_nodes_last)


def service_request(
    shape: ServiceShape, rules: Rules, selection: NodeSelection, ready_nodes: Collection[str] | None = None
) -> Request:
    """Return the request of a service. Raises Refused for rules of its runtime that are not understood.

    Args:
        shape: its pods.
        rules: the rules of its runtime's pods, without the preferences of the selection.
        selection: how its node is chosen.
        ready_nodes: the nodes that have its model; None if any node will do.
    """
    # A leader and its workers have rules of their own, of which those of the workers are taken: they are more.
    rules = mapping(rules.get("worker")) if shape.pods > 1 else rules
    own = node_rules(with_preferences(rules, preferences_of(selection)))
    ruled = replace(own, tolerations=(*own.tolerations, *GPU_POD.tolerations), idle_first=idle_rule(selection))
    if ready_nodes is not None:
        ready = LabelExpression(NAME_FIELD, Operator.IN, tuple(sorted(ready_nodes)))
        ruled = replace(ruled, nodes=tuple((*term, ready) for term in ruled.nodes or ((),)))
    amounts = _host_amounts(rules) if selection.count_hosts else NOTHING
    return Request(
        devices=shape.gpus,
        gang_size=shape.pods,
        rules=ruled,
        cpu_milli=amounts.cpu_milli,
        host_memory_mib=-(-amounts.memory_bytes // _MIB),
        disk_mib=-(-amounts.ephemeral_storage_bytes // _MIB),
    )


def _host_amounts(rules: Mapping[str, Any]) -> Amounts:
    """Return what the runtime's own containers ask of a host."""
    containers = sequence(rules.get("containers")) or [mapping(rules.get("runner"))]
    try:
        return requests_of({**rules, "containers": containers})
    except (BadQuantity, AttributeError, TypeError) as error:
        raise Refused(f"the resources of the runtime cannot be read: {error}", field="runtime") from None
