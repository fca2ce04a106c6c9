"""Large clusters for benchmarks: a real API server whose etcd is filled with nodes and pods that nothing runs.

The API server would take minutes to make tens of thousands of objects. So it makes one of each kind, and what it wrote
to etcd is copied there under other names of the same length. Reading and watching them is then its work, as ever.
"""

import base64
import http.client
import json
import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node

GPUS_PER_NODE = 8
WRITES_PER_REQUEST = 100
"""etcd takes 128."""

SAMPLE_NODE, SAMPLE_POD = "n-each", "p-each"
_NODES_AT, _PODS_AT = "/registry/minions/", "/registry/pods/default/"

Json = dict[str, Any]


def fill(plane: ControlPlane, cluster: Cluster, nodes: int, pods: int) -> None:
    """Nodes `n00000` ... and pods `p00000` ... in the namespace default, in turn on the nodes, each with one GPU."""
    node, running = _make_samples(cluster)
    etcd = _Etcd(plane.etcd_url)
    etcd.put(_nodes(etcd.get(_NODES_AT + SAMPLE_NODE), node["metadata"]["uid"], nodes))
    etcd.put(_pods(etcd.get(_PODS_AT + SAMPLE_POD), running["metadata"]["uid"], pods, nodes))
    etcd.close()
    cluster.delete(PODS, SAMPLE_POD, grace_s=0)
    cluster.delete(NODES, SAMPLE_NODE)


def node_name(number: int) -> str:
    return f"n{number:05}"


def pod_name(number: int) -> str:
    return f"p{number:05}"


def _make_samples(cluster: Cluster) -> tuple[Json, Json]:
    """A node, and a pod that runs on it, with what a kubelet and others write into them."""
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.count": str(GPUS_PER_NODE),
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/cuda.driver-version.full": "550.54.15",
        **{f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{number}": "true" for number in range(40)},
    }
    make_node(cluster, SAMPLE_NODE, gpus=GPUS_PER_NODE, labels=labels)
    wanted = pod(SAMPLE_POD, "default", gpus=1, node=SAMPLE_NODE)
    wanted["metadata"]["labels"] = {"app": "train", "pod-template-hash": "6d4cf56db6", "corral.dev/queue": "batch"}
    cluster.create(PODS, wanted)
    moment = "2026-01-02T03:04:05Z"
    types = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    status = {
        "phase": "Running",
        "hostIP": "10.0.0.1",
        "podIP": "10.1.2.3",
        "startTime": moment,
        "conditions": [{"type": type_, "status": "True", "lastTransitionTime": moment} for type_ in types],
        "containerStatuses": [
            {
                "name": "main",
                "image": "example.test/train:1",
                "imageID": "example.test/train@sha256:" + 64 * "0",
                "containerID": "containerd://" + 64 * "0",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": moment}},
            }
        ],
    }
    return cluster.get(NODES, SAMPLE_NODE), cluster.patch(PODS, SAMPLE_POD, {"status": status}, subresource="status")


def _nodes(sample: bytes, uid: str, count: int) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        name = node_name(number)
        yield _NODES_AT + name, _copy(sample, {SAMPLE_NODE: name, uid: str(uuid.uuid4())})


def _pods(sample: bytes, uid: str, count: int, nodes: int) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        name, node = pod_name(number), node_name(number % nodes)
        yield _PODS_AT + name, _copy(sample, {SAMPLE_POD: name, SAMPLE_NODE: node, uid: str(uuid.uuid4())})


def _copy(sample: bytes, texts: dict[str, str]) -> bytes:
    """The object with other texts of the same length, which leaves what protobuf says of lengths true."""
    for old, new in texts.items():
        assert len(old) == len(new)
        sample = sample.replace(old.encode(), new.encode())
    return sample


class _Etcd:
    """A store of keys and values, through its gateway from JSON."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)

    def get(self, key: str) -> bytes:
        return base64.b64decode(self._asked("range", {"key": _base64(key.encode())})["kvs"][0]["value"])

    def put(self, items: Iterator[tuple[str, bytes]]) -> None:
        while batch := list(islice(items, WRITES_PER_REQUEST)):
            puts = [{"requestPut": {"key": _base64(key.encode()), "value": _base64(value)}} for key, value in batch]
            self._asked("txn", {"success": puts})

    def close(self) -> None:
        self._connection.close()

    def _asked(self, method: str, body: Json) -> Json:
        self._connection.request("POST", f"/v3/kv/{method}", json.dumps(body))
        answer = self._connection.getresponse()
        told = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"etcd: {told.decode()}")
        found: Json = json.loads(told)
        return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
