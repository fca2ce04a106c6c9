"""Reads what a site says of its Kubernetes cluster, for a server with `engine: kubernetes`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from corral.config.groups import lines_of, one, read_group, several
from corral.config.keys import keys_of
from corral.config.readers import absolute_path, text
from corral.core.model.errors import Refused

if TYPE_CHECKING:
    from yaml.nodes import Node, ScalarNode


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Which cluster, and how its jobs run.

    Attributes:
        kubeconfig, context: how the cluster is reached; None is as kubectl would: $KUBECONFIG, or ~/.kube/config, or
            the service account of the pod that the server runs in.
        namespace: where the pods of jobs are; None is that of the context.
        prometheus_url: a Prometheus that has what dcgm-exporter measures; None is none.
        exec_nvidia_smi: run nvidia-smi in pods that have GPUs, where nothing else measures these.
        image: of jobs that name none.
        host_paths: directories of nodes that jobs may see as volumes, with all that is below them.
        service_accounts: as which jobs may speak to the cluster; without one their pods have no token.
        scheduler_name: pods that others make and that name this scheduler are bound by Corral.
        pod_users: whose these pods are: users by namespace, or by "NAMESPACE/SERVICEACCOUNT"; of any other namespace,
            the user has its name.
        privileged_templates: pod templates of jobs may ask for power over their node, such as its network.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    prometheus_url: str | None = None
    exec_nvidia_smi: bool = False
    image: str | None = None
    host_paths: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    privileged_templates: bool = False
    scheduler_name: str = "corral"
    pod_users: tuple[tuple[str, str], ...] = ()


def read_kubernetes(path: Path, node: "Node") -> KubernetesSettings:
    """The group `kubernetes`. Raises Refused with file and line."""
    return KubernetesSettings(**read_group(path, lines_of(node), _KEYS, "kubernetes.").values)


def _http_url(node: "ScalarNode") -> str:
    url = text(node)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(f"{url!r:.100} is not a URL; write one such as http://prometheus.monitoring:9090")
    return url


def _scheduler_name(node: "ScalarNode") -> str:
    name = text(node)
    if not name or len(name) > 253 or not all(c.isascii() and (c.isalnum() or c in "-.") for c in name):
        raise Refused(f"{name!r:.100} is not the name of a scheduler; write letters, digits, - and .")
    return name


def _pod_user(node: "ScalarNode") -> tuple[str, str]:
    whose, _, user = text(node).partition("=")
    if not (whose and user):
        raise Refused(
            f"{text(node)!r:.100} does not say whose pods are whose; write NAMESPACE=USER or NAMESPACE/ACCOUNT=USER"
        )
    return whose, user


_KEYS = keys_of(
    KubernetesSettings,
    kubeconfig=one(absolute_path),
    prometheus_url=one(_http_url),
    host_paths=several(absolute_path),
    scheduler_name=one(_scheduler_name),
    pod_users=several(_pod_user),
)
