"""A definition of a resource name as the ConfigMap in which a cluster has it. Pure."""

import re
from typing import Any

from corral.core.model.answers.site import ResourceNameRow

NAMESPACE = "kube-public"
NAME_PREFIX = "cf-crl-"
TYPE_LABEL, GROUP_LABEL, ENABLED_LABEL = (f"features.alauda.io/{part}" for part in ("type", "group", "enabled"))
TYPE = "CustomResourceLimitation"
MANAGED_BY, OURS = "app.kubernetes.io/managed-by", "corral"

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_QUALIFIED = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")


def is_of_kubernetes(name: str) -> bool:
    """Return whether pods can ask for a resource of this name: those of other systems may have none of the form."""
    return _QUALIFIED.fullmatch(name) is not None


def config_map(row: ResourceNameRow) -> dict[str, Any]:
    """Return the ConfigMap of a definition."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": map_name(row.group, row.name),
            "namespace": NAMESPACE,
            "labels": {TYPE_LABEL: TYPE, GROUP_LABEL: row.group, ENABLED_LABEL: "true", MANAGED_BY: OURS},
        },
        "data": {
            "key": row.name,
            "dataType": "integer" if row.integer else "number",
            "defaultValue": row.default or "",
            "descriptionZh": row.descriptions.get("zh", ""),
            "descriptionEn": row.descriptions.get("en", ""),
            "group": row.group,
            "limits": row.limits,
            "requests": row.requests,
        },
    }


def map_name(group: str, key: str) -> str:
    """Return the name of the ConfigMap: the domain of the key is left out, as "cf-crl-gpu-manager-vcuda-core"."""
    parts = (_NOT_IN_NAMES.sub("-", part.lower()).strip("-") for part in (group, key.rpartition("/")[2]))
    return NAME_PREFIX + "-".join(parts)
