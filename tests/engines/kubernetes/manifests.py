"""Objects that tests make, and kinds of which the server makes none."""

from typing import Any

from corral.engines.kubernetes.cluster.resource import ResourceType

JOBS = ResourceType("batch", "v1", "jobs", "Job")
CUSTOM_RESOURCE_DEFINITIONS = ResourceType(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


def pod(name: str, namespace: str, *, gpus: int = 0, node: str | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of one container; bound at once where a node is named."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {"name": "main", "image": "example.test/train:1", "resources": {"limits": limits}}
    bound = {"nodeName": node} if node else {}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "restartPolicy": "Never", **bound, **spec},
    }


def node(name: str, *, gpus: int = 8, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A node that is ready, with devices. Its status is taken as it is made only where the API server allows it."""
    amounts = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
