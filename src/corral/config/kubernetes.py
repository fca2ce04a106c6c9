"""Read the site's settings of its Kubernetes cluster, for a server with `engine: kubernetes`."""

import re
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


_LABEL = re.compile(r"([a-z0-9][-.a-z0-9]{0,252}/)?[A-Za-z0-9][-_.A-Za-z0-9]{0,62}", re.ASCII)
_ACCOUNT = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The cluster, and how its jobs run.

    Attributes:
        kubeconfig, context: how to reach the cluster. None uses the defaults of kubectl: $KUBECONFIG, ~/.kube/config,
            or the service account of the pod in which the server runs.
        namespace: the namespace of the jobs' pods; None is that of the context.
        prometheus_url: a Prometheus with the measurements of dcgm-exporter; None is none.
        exec_nvidia_smi: run nvidia-smi in pods that have GPUs, if nothing else measures these GPUs.
        image: for jobs that name none.
        host_paths: directories of nodes that jobs may mount as volumes, with everything below them.
        service_accounts: accounts that jobs may use to talk to the cluster; without one their pods have no token.
        scheduler_name: Corral binds pods that others make and that name this scheduler.
        pod_users: the users of these pods, by namespace or by "NAMESPACE/SERVICEACCOUNT". For any other namespace, the
            user has the namespace's name.
        privileged_templates: pod templates of jobs may ask for power over their node, such as its network.
        agent_account: the service account of the agents on nodes, "NAMESPACE/NAME". The pods of no other account report
            the devices of their nodes.
        means_label: the label of nodes that says how their GPUs are given to pods; None if no label says it.
        extender_callers: the common names in the certificates of the kube-schedulers that may use the extender.
        admission_callers: the common names in the certificates of the API servers that may ask the admission webhook.
        admission_without_certificate: also callers without a certificate may ask it: API servers show none unless they
            are configured so.
        extender_by_proxy: callers without a certificate may ask the extender for nodes and scores, as those who come
            through the API server's proxy of services.
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
    agent_account: str = "corral-system/corral-agent"
    means_label: str | None = "nvidia-device-enable"
    extender_callers: tuple[str, ...] = ("system:kube-scheduler",)
    extender_by_proxy: bool = False
    admission_callers: tuple[str, ...] = ("kube-apiserver",)
    admission_without_certificate: bool = False


def read_kubernetes(path: Path, node: "Node") -> KubernetesSettings:
    """Read the group `kubernetes`. Raises Refused with file and line."""
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


def _label(node: "ScalarNode") -> str | None:
    key = text(node)
    if key == "none":
        return None
    if _LABEL.fullmatch(key) is None:
        raise Refused(f"{key!r:.100} is not the key of a label; write one such as example.com/gpus, or none")
    return key


def _account(node: "ScalarNode") -> str:
    account = text(node)
    if _ACCOUNT.fullmatch(account) is None:
        raise Refused(f"{account!r:.100} is not a service account; write NAMESPACE/NAME")
    return account


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
    agent_account=one(_account),
    means_label=one(_label),
)
