"""Plays an operator of model services with its kubelet: a pod for each service, and a stand-in as the server in it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.resource import PODS
from corral.features.services.service_kinds import ServiceKind
from tests.engines.kubernetes.manifests import pod
from tests.features.services.operator import set_status

LOOK_S = 0.1
_OF_RUNTIME = ("--port=", "--pipeline-parallel-size=")
"""Beginnings of arguments that a runtime takes, and a stand-in does not."""


class PlayingOperator:
    """Looks after the services of one namespace, on a thread.

    Attributes:
        via: the word for its kind.
        made: the services as they were when it saw them first, by name.
        uids: of all that it saw.
        servers: the stand-ins that run, by name.
    """

    def __init__(self, cluster: Cluster, kind: ServiceKind, namespace: str, node: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self.via = kind.via
        self._namespace = namespace
        self._node = node
        self.made: dict[str, dict[str, Any]] = {}
        self.uids: set[str] = set()
        self.servers: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()

    def look(self) -> None:
        """Serve what is new, and end what was deleted."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        found = self._cluster.list(self._kind.services, Selection(self._namespace))
        there = {item["metadata"]["name"]: item for item in found}
        for name in [name for name in self.servers if name not in there]:
            self._end(name)
        for name, item in there.items():
            if name not in self.servers:
                self.made.setdefault(name, item)
                self.uids.add(item["metadata"]["uid"])
                self._serve(name, item)

    @contextmanager
    def evicted(self, name: str) -> Iterator[None]:
        """The pod of a service is taken away, and no other made meanwhile."""
        with self._lock:
            self._end(name)
            yield

    def close(self) -> None:
        for name in list(self.servers):
            self._end(name)

    def _serve(self, name: str, item: dict[str, Any]) -> None:
        part = item["spec"]["engine"]["runner"] if self._kind.via == "ome" else item["spec"]["predictor"]["model"]
        gpus = int(part["resources"]["limits"]["nvidia.com/gpu"])
        words = [word for word in part["args"] if not word.startswith(_OF_RUNTIME)]
        wanted = pod(f"{name}-pod", self._namespace, gpus=gpus, node=self._node)
        wanted["metadata"]["labels"] = {self._kind.pod_label: name}
        wanted["spec"]["containers"][0]["name"] = self._kind.container
        self._cluster.create(PODS, wanted)
        command = [
            sys.executable,
            "-m",
            "corral.features.tuner.engines.stand_in_server",
            "--model",
            f"served-{name}",
            *words,
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.servers[name] = server
        assert server.stdout is not None
        said = server.stdout.readline()
        if said:
            self._say_of_pod(name, {"running": {}})
            url = f"http://127.0.0.1:{said.split()[-1]}"
            conditions = [{"type": "Ready", "status": "True"}]
            set_status(self._cluster, self._kind, self._namespace, name, conditions=conditions, url=url)
        else:
            _, told = server.communicate()
            self._say_of_pod(name, {"terminated": {"exitCode": server.returncode, "reason": "Error", "message": told}})

    def _say_of_pod(self, name: str, state: dict[str, Any]) -> None:
        server = {
            "name": self._kind.container, "image": "i", "imageID": "", "ready": "running" in state,
            "restartCount": 0, "state": state,
        }  # fmt: skip
        status = {"phase": "Running", "containerStatuses": [server]}
        self._cluster.patch(PODS, f"{name}-pod", {"status": status}, self._namespace, subresource="status")

    def _end(self, name: str) -> None:
        server = self.servers.pop(name)
        server.kill()
        server.wait()
        for stream in (server.stdout, server.stderr):
            assert stream is not None
            stream.close()
        self._cluster.delete(PODS, f"{name}-pod", self._namespace, grace_s=0)


@contextmanager
def playing_operator(cluster: Cluster, kind: ServiceKind, namespace: str, node: str) -> Iterator[PlayingOperator]:
    """An operator at work."""
    operator = PlayingOperator(cluster, kind, namespace, node)
    over = threading.Event()

    def work() -> None:
        while not over.wait(LOOK_S):
            operator.look()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield operator
    finally:
        over.set()
        worker.join()
        operator.close()
