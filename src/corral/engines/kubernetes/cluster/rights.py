"""The rights that a server needs in its cluster, and those that it can use. docs/kubernetes.md has them as a
ClusterRole.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from corral.core.model.errors import Forbidden, NotFound
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import MissingRight, NoSuchObject
from corral.engines.kubernetes.cluster.resource import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    OWN_NAMESPACE,
    PODS,
    SERVICES,
    TOKEN_REVIEWS,
    ResourceType,
)


@dataclass(frozen=True, slots=True)
class ServerRight:
    """A right of a server: in all namespaces (`everywhere`), in its own `namespace`, or else in the namespace
    of jobs.
    """

    verb: str
    resource: ResourceType
    subresource: str | None = None
    everywhere: bool = False
    namespace: str | None = None

    def scope(self, cluster: Cluster) -> str | None:
        """Return the namespace where the right is needed; None for all namespaces."""
        return None if self.everywhere else self.namespace or cluster.namespace

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")


SEEING = tuple(ServerRight(verb, resource, everywhere=True) for resource in (NODES, PODS) for verb in ("list", "watch"))
"""The rights to read nodes and GPUs."""

RUNNING_JOBS = (
    *(ServerRight(verb, PODS) for verb in ("get", "create", "patch", "delete")),
    ServerRight("get", PODS, "log"),
    *(ServerRight(verb, SERVICES) for verb in ("create", "delete")),
)
"""The rights to run jobs as pods."""

COMMANDS_IN_JOBS = tuple(ServerRight(verb, PODS, "exec") for verb in ("create", "get"))
"""The rights to run commands inside jobs. Depending on its version, the API server checks one of the two."""

BINDING = (
    ServerRight("create", PODS, "binding", everywhere=True),
    ServerRight("get", PODS, everywhere=True),
    ServerRight("patch", PODS, "status", everywhere=True),
    ServerRight("delete", PODS, everywhere=True),
    *(ServerRight(verb, EVENTS, everywhere=True) for verb in ("create", "patch")),
    *(ServerRight(verb, LEASES, namespace=OWN_NAMESPACE) for verb in ("get", "create", "patch")),
)
"""The rights to bind the pods of others. A server without these rights runs too, but binds no pods."""

HEARING_AGENTS = (ServerRight("create", TOKEN_REVIEWS, everywhere=True),)
"""The rights to find out who sends a report on a node."""


READING_NAMES = tuple(ServerRight(verb, CONFIG_MAPS, namespace="kube-public") for verb in ("list", "watch"))
"""The rights to read the resource names that the cluster defines."""


def missing_rights(cluster: Cluster, rights: Iterable[ServerRight]) -> list[ServerRight]:
    """Return those of the rights that the client does not have."""
    return [
        right
        for right in rights
        if not cluster.can_i(right.verb, right.resource, subresource=right.subresource, namespace=right.scope(cluster))
    ]


def require_rights(cluster: Cluster) -> None:
    """Raise Forbidden with every missing right, or the error that prevents the check."""
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
    """Return whether the namespace of jobs is missing. False if the client may not look."""
    try:
        cluster.get(NAMESPACES, cluster.namespace)
    except NoSuchObject:
        return True
    except MissingRight:
        return False
    return False


def require_namespace(cluster: Cluster) -> None:
    """Raise NotFound if the namespace of jobs does not exist: each job would fail there after some tries."""
    if namespace_is_missing(cluster):
        name = cluster.namespace
        raise NotFound(
            f"{cluster} has no namespace {name}, where jobs are to run; make it (kubectl create namespace {name}) "
            "or name another with --namespace"
        )
