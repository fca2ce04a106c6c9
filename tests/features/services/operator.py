"""Plays OME's and KServe's operators: it sets the status of a service, and makes the pods that they would make."""

from typing import Any

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import PODS
from corral.features.services.service_kinds import ServiceKind
from tests.engines.kubernetes.manifests import pod


def make_pod(cluster: Cluster, kind: ServiceKind, namespace: str, service: str, *, gpus: int, node: str) -> None:
    """The one pod of a service, bound to a node."""
    wanted = pod(f"{service}-pod", namespace, gpus=gpus, node=node)
    wanted["metadata"]["labels"] = {kind.pod_label: service}
    cluster.create(PODS, wanted)


def say_ready(cluster: Cluster, kind: ServiceKind, namespace: str, service: str) -> None:
    """The service answers."""
    conditions = [{"type": name, "status": "True"} for name in ("EngineReady", "IngressReady", "Ready")]
    url = f"http://{service}.{namespace}.example.test"
    set_status(cluster, kind, namespace, service, conditions=conditions, url=url)


def say_failed(cluster: Cluster, kind: ServiceKind, namespace: str, service: str, why: str) -> None:
    """The model cannot be loaded."""
    states = "modelRevisionStates" if kind.via == "ome" else "states"
    model = {
        "transitionStatus": "BlockedByFailedLoad",
        states: {"activeModelState": "Loading", "targetModelState": "FailedToLoad"},
        "lastFailureInfo": {"reason": "ModelLoadFailed", "message": why, "exitCode": 1},
    }
    set_status(cluster, kind, namespace, service, modelStatus=model, conditions=[{"type": "Ready", "status": "False"}])


def set_status(cluster: Cluster, kind: ServiceKind, namespace: str, service: str, **status: Any) -> None:
    cluster.patch(kind.services, service, {"status": status}, namespace, subresource="status")
