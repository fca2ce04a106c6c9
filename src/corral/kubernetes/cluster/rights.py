"""What a server must be able to do in its cluster, and what it can use. docs/kubernetes.md has it as a ClusterRole."""

from collections.abc import Iterable
from dataclasses import dataclass

from corral.kubernetes.cluster.client import Cluster
from corral.kubernetes.cluster.errors import MissingRight, NoSuchObject
from corral.kubernetes.cluster.resource import (
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    OWN_NAMESPACE,
    PODS,
    SERVICES,
    ResourceType,
)
from corral.model.errors import Forbidden, NotFound


@dataclass(frozen=True, slots=True)
class ServerRight:
    """A right that is needed: in all namespaces, in one of that name, else in that of jobs."""

    verb: str
    resource: ResourceType
    subresource: str | None = None
    everywhere: bool = False
    namespace: str | None = None

    def scope(self, cluster: Cluster) -> str | None:
        """The namespace where it is needed; None for all of them."""
        return None if self.everywhere else self.namespace or cluster.namespace

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")


SEEING = tuple(ServerRight(verb, resource, everywhere=True) for resource in (NODES, PODS) for verb in ("list", "watch"))
"""To know nodes and GPUs."""

RUNNING_JOBS = (
    *(ServerRight(verb, PODS) for verb in ("get", "create", "patch", "delete")),
    ServerRight("get", PODS, "log"),
    *(ServerRight(verb, SERVICES) for verb in ("create", "delete")),
)
"""To run jobs as pods."""

COMMANDS_IN_JOBS = tuple(ServerRight(verb, PODS, "exec") for verb in ("create", "get"))
"""To run commands inside jobs. Which of the two is asked for depends on the version of the API server."""

BINDING = (
    ServerRight("create", PODS, "binding", everywhere=True),
    ServerRight("get", PODS, everywhere=True),
    ServerRight("patch", PODS, "status", everywhere=True),
    ServerRight("delete", PODS, everywhere=True),
    *(ServerRight(verb, EVENTS, everywhere=True) for verb in ("create", "patch")),
    *(ServerRight(verb, LEASES, namespace=OWN_NAMESPACE) for verb in ("get", "create", "patch")),
)
"""To bind the pods of others. A server without these runs all the same, and binds none."""


def missing_rights(cluster: Cluster, rights: Iterable[ServerRight]) -> list[ServerRight]:
    """Those of the rights that the one who asks does not have."""
    return [
        right
        for right in rights
        if not cluster.can_i(right.verb, right.resource, subresource=right.subresource, namespace=right.scope(cluster))
    ]


def require_rights(cluster: Cluster) -> None:
    """Raises Forbidden, naming every right that is missing; and what keeps it from asking."""
    missing = missing_rights(cluster, (*SEEING, *RUNNING_JOBS))
    if not missing:
        return
    everywhere = ", ".join(str(right) for right in missing if right.everywhere)
    here = ", ".join(str(right) for right in missing if not right.everywhere)
    parts = [
        *([f"{everywhere} in the whole cluster"] if everywhere else []),
        *([f"{here} in namespace {cluster.namespace}"] if here else []),
    ]
    raise Forbidden(
        f"{cluster} does not let this server {'; '.join(parts)}. Bind the roles in docs/kubernetes.md to the "
        "user of its kubeconfig, or to its service account"
    )


def namespace_is_missing(cluster: Cluster) -> bool:
    """Whether the namespace of jobs is not there. False where the one who asks may not look."""
    try:
        cluster.get(NAMESPACES, cluster.namespace)
    except NoSuchObject:
        return True
    except MissingRight:
        return False
    return False


def require_namespace(cluster: Cluster) -> None:
    """Raises NotFound where the namespace of jobs is not there: each of them would fail, after some tries."""
    if namespace_is_missing(cluster):
        name = cluster.namespace
        raise NotFound(
            f"{cluster} has no namespace {name}, where jobs are to run; make it (kubectl create namespace {name}) "
            "or name another with --namespace"
        )
