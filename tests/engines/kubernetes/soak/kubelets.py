"""Plays the kubelets of all nodes of a soak in one thread: pods begin, end after a while, and go when they are deleted.

No process runs in them, and their logs are one line. Whether and when a pod ends is drawn from its name and the seed of
the soak.
"""

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import NoSuchObject, ObjectChanged
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from tests.engines.kubernetes.kubelet_port import KubeletPort
from tests.engines.kubernetes.nodes import make_node

AGAIN_S = 0.3
SHORTEST_S, LONGEST_S = 0.3, 2.5
FAILING = 0.1
"""So many of the pods end with code 3."""

COLLECT_EACH_S = 2.0
FAILED, KILLED, TERMINATED = 3, 137, 143
GPUS = "nvidia.com/gpu"

Json = dict[str, Any]


class Refusal(NamedTuple):
    """A pod that found too few devices on its node: how many would be taken with it, and when (monotonic)."""

    pod: str
    node: str
    taken: int
    at_s: float


class Kubelets:
    """From `start` to `close`. A node in `dead` does nothing; pods of nodes that are gone are collected, as by podgc.

    Attributes:
        refused: what was not let in.
    """

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        self.refused: list[Refusal] = []
        self.dead: set[str] = set()
        self._cluster = cluster
        self._port = KubeletPort(directory, "kubelets", _OneLine)
        self._seed = seed
        self._watch = ObjectWatch(cluster, PODS)
        self._cache = self._watch.cache(lambda pod: dict(pod) if pod["spec"].get("nodeName") else None)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._taken: set[str] = set()
        self._running: set[str] = set()
        self._going: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="kubelets", daemon=True)

    def start(self) -> None:
        self._port.start()
        self._watch.start()
        self._watch.wait_until_synced(30)
        self._cache.subscribe(self._hear)
        self._later(COLLECT_EACH_S, self._collect)
        self._thread.start()

    def close(self) -> None:
        self._watch.stop()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._port.close()

    def make_node(self, name: str, gpus: int) -> None:
        """A node whose logs are read here."""
        make_node(self._cluster, name, gpus=gpus, status=self._port.in_status)

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._numbers), act))
            self._changed.notify_all()

    def vanish(self, node: str) -> None:
        """The node and all that runs there are gone, and tell nobody."""
        self.dead.add(node)
        self._cluster.delete(NODES, node)

    def come_back(self, node: str) -> None:
        """The node is there again, with nothing that ran there before."""
        self.dead.discard(node)
        for pod in self._cache.values():
            if pod["spec"]["nodeName"] == node:
                uid = pod["metadata"]["uid"]
                self._going.discard(uid)
                if uid in self._running:
                    self._later(0.0, partial(self._end, pod, KILLED))
                self._hear([Change(None, pod)])

    def _run(self) -> None:
        while (act := self._next()) is not None:
            try:
                act()
            except CorralError:
                self._later(AGAIN_S, act)

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed:
                if self._due and self._due[0][0] <= time.monotonic():
                    return heapq.heappop(self._due)[2]
                self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
        return None

    def _hear(self, changes: list[Change[Json]]) -> None:
        for old, new in changes:
            pod = new or old
            assert pod is not None
            uid = pod["metadata"]["uid"]
            if new is None or pod["spec"]["nodeName"] in self.dead:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                if uid not in self._going:
                    self._going.add(uid)
                    self._later(0.1, partial(self._end_deleted, pod))
            elif uid not in self._taken and pod["status"].get("phase", "Pending") == "Pending":
                self._taken.add(uid)
                self._later(0.05, partial(self._begin, pod))

    def _begin(self, pod: Json) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if node in self.dead or uid in self._going:
            self._taken.discard(uid)
            return
        allocatable = int(self._cluster.get(NODES, node)["status"]["allocatable"].get(GPUS, 0))
        running = (one for one in self._cache.values() if one["metadata"]["uid"] in self._running)
        taken = _gpus(pod) + sum(_gpus(one) for one in running if one["spec"]["nodeName"] == node)
        if taken > allocatable:
            self.refused.append(Refusal(pod["metadata"]["name"], node, taken, time.monotonic()))
            self._tell(pod, {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "too few devices"})
            return
        self._running.add(uid)
        self._tell(pod, _status("Running", {"running": {"startedAt": _now()}}, pod))
        drawn = random.Random(f"{self._seed} {pod['metadata']['name']}")
        code = FAILED if drawn.random() < FAILING else 0
        self._later(drawn.uniform(SHORTEST_S, LONGEST_S), partial(self._end, pod, code))

    def _end(self, pod: Json, code: int) -> None:
        uid = pod["metadata"]["uid"]
        if pod["spec"]["nodeName"] not in self.dead and uid in self._running:
            self._tell(pod, _status("Failed" if code else "Succeeded", _ended(code), pod))
            self._running.discard(uid)

    def _end_deleted(self, pod: Json) -> None:
        if pod["spec"]["nodeName"] not in self.dead:
            self._end(pod, TERMINATED)
            self._remove(pod)

    def _collect(self) -> None:
        self._later(COLLECT_EACH_S, self._collect)
        nodes = {node["metadata"]["name"] for node in self._cluster.list(NODES)}
        for pod in self._cache.values():
            if pod["spec"]["nodeName"] not in nodes:
                self._running.discard(pod["metadata"]["uid"])
                self._remove(pod)

    def _remove(self, pod: Json) -> None:
        metadata = pod["metadata"]
        with suppress(ObjectChanged):
            self._cluster.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_s=0)

    def _tell(self, pod: Json, status: Json) -> None:
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        try:
            self._cluster.patch(PODS, metadata["name"], body, metadata["namespace"], subresource="status")
        except NoSuchObject:
            return
        except ObjectChanged:
            now = self._cache.get(metadata["name"], metadata["namespace"])
            if now is not None and now["metadata"]["uid"] == metadata["uid"]:
                raise


class _OneLine(BaseHTTPRequestHandler):
    """The log of every pod."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{_now()} it ran\n".encode())

    def log_message(self, *_: Any) -> None:
        """The soak has no use for it."""


def _gpus(pod: Json) -> int:
    return int((pod["spec"]["containers"][0].get("resources", {}).get("limits") or {}).get(GPUS, 0))


def _status(phase: str, state: Json, pod: Json) -> Json:
    container = {"name": pod["spec"]["containers"][0]["name"], "state": state}
    return {
        "phase": phase,
        "containerStatuses": [{**container, "image": "", "imageID": "", "ready": False, "restartCount": 0}],
    }


def _ended(code: int) -> Json:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": _now(), "finishedAt": _now()}}


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
