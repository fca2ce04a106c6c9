"""Writes definitions of resource names into a cluster, beside those that others have written there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corral.core.model.answers.site import ResourceNameRow
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.objects import labels, mapping
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS
from corral.engines.kubernetes.resource_names.written import (
    MANAGED_BY,
    NAMESPACE,
    OURS,
    TYPE,
    TYPE_LABEL,
    config_map,
    is_of_kubernetes,
)

ALL_DEFINITIONS = Selection(NAMESPACE, labels=f"{TYPE_LABEL}={TYPE}")


@dataclass(frozen=True, slots=True)
class Publication:
    """The outcome for one definition: its ConfigMap, and the name of another one that stands in its way."""

    key: str
    body: dict[str, Any]
    there: dict[str, Any] | None = None
    by_others: str | None = None

    @property
    def writes(self) -> bool:
        """Whether the cluster has not yet the same."""
        return self.by_others is None and not (
            self.there is not None
            and mapping(self.there.get("data")) == self.body["data"]
            and self.body["metadata"]["labels"].items() <= labels(mapping(self.there.get("metadata"))).items()
        )

    def __str__(self) -> str:
        if self.by_others is not None:
            return f"{self.key}: left as {self.by_others} defines it, which Corral has not made"
        state = "unchanged" if not self.writes else "created" if self.there is None else "changed"
        return f"{self.key}: {self.body['metadata']['name']} {state}"


def changes_to(cluster: Cluster, names: Sequence[ResourceNameRow]) -> list[Publication]:
    """Return what is to be written for these definitions. Names that no pod can have are left out."""
    found = {str(item["metadata"]["name"]): item for item in cluster.list(CONFIG_MAPS, ALL_DEFINITIONS)}
    foreign = {name: item for name, item in found.items() if not _is_ours(item)}
    defined = {str(mapping(item.get("data")).get("key")): name for name, item in foreign.items()}
    changes = []
    for row in names:
        if is_of_kubernetes(row.name):
            body = config_map(row)
            name = body["metadata"]["name"]
            in_the_way = defined.get(row.name) or (name if name in foreign else None)
            changes.append(Publication(row.name, body, found.get(name), in_the_way))
    return changes


def write(cluster: Cluster, change: Publication) -> None:
    """Write one definition, unless the cluster has it. Raises AlreadyExists if another ConfigMap has its name."""
    if not change.writes:
        return
    if change.there is None:
        cluster.create(CONFIG_MAPS, change.body, NAMESPACE)
    else:
        cluster.patch(CONFIG_MAPS, change.body["metadata"]["name"], change.body, NAMESPACE)


def _is_ours(item: dict[str, Any]) -> bool:
    return labels(mapping(item.get("metadata"))).get(MANAGED_BY) == OURS
