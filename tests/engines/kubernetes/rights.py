"""The rights that docs/kubernetes.md says a server needs, given to a user of the tests, and those of manifests."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import AlreadyExists
from corral.engines.kubernetes.cluster.resource import NAMESPACES, ResourceType

DOCS = Path(__file__).parents[3] / "docs" / "kubernetes.md"
_GROUP = "rbac.authorization.k8s.io"
_ROLES = ResourceType(_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
_LOCAL_ROLES = ResourceType(_GROUP, "v1", "roles", "Role")
_LOCAL_BINDINGS = ResourceType(_GROUP, "v1", "rolebindings", "RoleBinding")
_BINDINGS = ResourceType(_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


def documented_rights() -> str:
    """The manifests as the page shows them."""
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return next(block for block in blocks if "ClusterRole" in block)


def documented(kind: str) -> dict[str, Any]:
    """One of the manifests."""
    return next(found for found in yaml.safe_load_all(documented_rights()) if found["kind"] == kind)


def give_documented_rights(admin: Cluster, user: str) -> None:
    """All tests of a run give the same user the same."""
    subject = {"kind": "User", "name": user, "apiGroup": _GROUP}
    with suppress(AlreadyExists):
        admin.create(NAMESPACES, documented("Namespace"))
    kinds = {"ClusterRole": (_ROLES, _BINDINGS), "Role": (_LOCAL_ROLES, _LOCAL_BINDINGS)}
    for role in yaml.safe_load_all(documented_rights()):
        if (kind := role["kind"]) not in kinds:
            continue
        roles, bindings = kinds[kind]
        name, namespace = role["metadata"]["name"], role["metadata"].get("namespace")
        reference = {"kind": kind, "name": name, "apiGroup": _GROUP}
        with suppress(AlreadyExists):
            admin.create(roles, role, namespace)
        with suppress(AlreadyExists):
            body = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
            admin.create(bindings, body, namespace)


def give_rights_of(manifest: Path, admin: Cluster, namespace: str, account: str) -> None:
    """The cluster roles of a manifest, under names of a test's own, for a service account of this namespace."""
    for one in yaml.safe_load_all(manifest.read_text()):
        if one["kind"] != "ClusterRole":
            continue
        name = f"{namespace}-{one['metadata']['name']}"
        admin.create(_ROLES, {**one, "metadata": {"name": name}})
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        reference = {"kind": "ClusterRole", "name": name, "apiGroup": _GROUP}
        admin.create(_BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})
