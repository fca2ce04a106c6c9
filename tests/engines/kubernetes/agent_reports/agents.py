"""Pods of agents on a real API server, with tokens that it issues, and what they report."""

import base64
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.engines.kubernetes.agent.agent_report import PROTOCOL, AgentReport
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.connection import Call
from corral.engines.kubernetes.cluster.resource import PODS, ResourceType
from corral.wire import to_plain
from tests.engines.kubernetes.manifests import pod

ACCOUNTS = ResourceType("", "v1", "serviceaccounts", "ServiceAccount")
ACCOUNT = "corral-agent"


def make_account(cluster: Cluster, namespace: str, name: str = ACCOUNT) -> str:
    """A service account, as the setting names it."""
    cluster.create(ACCOUNTS, {"metadata": {"name": name}}, namespace)
    return f"{namespace}/{name}"


def make_agent_pod(cluster: Cluster, namespace: str, name: str, node: str, *, account: str = ACCOUNT) -> str:
    """A pod of an agent on a node that no kubelet stands behind. Returns its UID."""
    made = cluster.create(PODS, pod(name, namespace, node=node, serviceAccountName=account), namespace)
    return str(made["metadata"]["uid"])


def token_of(
    cluster: Cluster,
    namespace: str,
    bound_to: tuple[str, str] | None,
    *,
    account: str = ACCOUNT,
    audiences: Sequence[str] = ("corral",),
) -> str:
    """A token that the API server issues, bound to a pod by its name and UID, as a kubelet asks for it."""
    spec: dict[str, Any] = {"audiences": list(audiences), "expirationSeconds": 600}
    if bound_to is not None:
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": bound_to[0], "uid": bound_to[1]}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    call = Call("POST", ACCOUNTS.path(namespace, account, "token"), json.dumps(body).encode())
    return str(cluster._calls.asked(call, "create serviceaccounts/token", 20.0)["status"]["token"])


def expired(token: str, key: Path) -> str:
    """The same token, as the API server would have issued it an hour ago, signed by its key."""
    head, claims, _ = token.split(".")
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    now = int(time.time())
    body = _plain(json.dumps({**told, "iat": now - 4200, "nbf": now - 4200, "exp": now - 3600}).encode())
    signing = f"{head}.{body}".encode()
    command = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    signed = subprocess.run(command, input=signing, capture_output=True, check=True).stdout
    return f"{head}.{body}.{_plain(signed)}"


def _plain(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def report(node: str, *uuids: str, sent_at: float = 1000.0, samples: tuple[DeviceSample, ...] = ()) -> AgentReport:
    """A report on devices of these UUIDs, each with a sample of the same moment unless there are others."""
    devices = tuple(Device(uuid, index, "H100", 81920) for index, uuid in enumerate(uuids))
    taken = samples or tuple(DeviceSample(uuid, sent_at, utilization_pct=7) for uuid in uuids)
    return AgentReport(PROTOCOL, "1.2.3", sent_at, Node(node, devices, 8000, 1024), taken)


def body_of(sent: AgentReport, **other: Any) -> bytes:
    """The bytes of a report, with other values of some fields."""
    return json.dumps({**to_plain(sent), **other}).encode()
