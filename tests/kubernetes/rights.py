"""The rights that docs/kubernetes.md says a server needs, given to a user of the tests."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from corral.kubernetes.cluster.client import Cluster
from corral.kubernetes.cluster.errors import AlreadyExists
from corral.kubernetes.cluster.resource import ResourceType

DOCS = Path(__file__).parents[2] / "docs" / "kubernetes.md"
_GROUP = "rbac.authorization.k8s.io"
_ROLES = ResourceType(_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
_BINDINGS = ResourceType(_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


def documented_role() -> dict[str, Any]:
    """The ClusterRole as the page shows it."""
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return next(found for block in blocks if (found := yaml.safe_load(block)).get("kind") == "ClusterRole")


def give_documented_rights(admin: Cluster, user: str) -> None:
    """All tests of a run give the same user the same."""
    role = documented_role()
    name = role["metadata"]["name"]
    subject = {"kind": "User", "name": user, "apiGroup": _GROUP}
    reference = {"kind": "ClusterRole", "name": name, "apiGroup": _GROUP}
    with suppress(AlreadyExists):
        admin.create(_ROLES, role)
    with suppress(AlreadyExists):
        admin.create(_BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})
