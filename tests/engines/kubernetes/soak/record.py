"""What the API server itself says of pods and nodes while a soak goes on, and what must hold at each moment of it.

It listens beside the proxy and with nothing of Corral's: a plain watch, begun again after each restart of the API
server, with a listing that is compared with what was known.
"""

import http.client
import json
import socket
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.engines.kubernetes.control_plane import ADMIN, ControlPlane

GPUS = "nvidia.com/gpu"
SHRUNK_LATELY_S = 15.0
"""So long after a node lost devices a start on it may still not know: a watch may have stood still, or the server."""

TOLD_S = 10.0
"""By then a server knows of an end, also if it was down or its watch stood still."""

Json = dict[str, Any]


@dataclass
class SeenPod:
    """One pod, by UID, from when it came.

    Attributes:
        gang: of which gang, "" for none; with namespace, or the allocation where Corral made the pod.
        ours: whether Corral made it.
        bound_by_us: whether Corral put it on its node.
        came_s, began_s, ended_s, gone_s: when it was first told, to run, to have ended, or to be gone (monotonic).
        deleted_first: whether it was deleted before it ended.
        lost_node: whether its node vanished while it was there.
    """

    uid: str
    namespace: str
    name: str
    gpus: int
    gang: str
    gang_size: int
    ours: bool
    job: str
    allocation: str
    rank: str
    tombstone: bool
    came_s: float
    node: str = ""
    bound_by_us: bool = False
    phase: str = "Pending"
    deleting: bool = False
    exit_code: int | None = None
    began_s: float | None = None
    ended_s: float | None = None
    gone_s: float | None = None
    deleted_first: bool = False
    lost_node: bool = False

    @property
    def ended(self) -> bool:
        return self.ended_s is not None

    @property
    def gone(self) -> bool:
        return self.gone_s is not None

    @property
    def unseen(self) -> bool:
        """Whether its object was gone so soon that nobody may have seen how it ended; Corral keeps its own."""
        return (
            not self.ours
            and self.gone_s is not None
            and self.ended_s is not None
            and self.gone_s - self.ended_s < TOLD_S
        )

    @property
    def lives(self) -> bool:
        """Whether it takes its devices of its node."""
        return bool(self.node) and not self.ended


@dataclass
class _Gang:
    size: int
    members: dict[str, SeenPod] = field(default_factory=dict)
    was_whole: bool = False
    half_since_s: float | None = None


class Record:
    """Attributes:
    pods: all that ever were, by UID.
    longest_half: how long a gang was bound in part at most, seconds without the outages, and which one.
    bindings: how many were looked at.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.lock = threading.RLock()
        self.pods: dict[str, SeenPod] = {}
        self.longest_half: tuple[float, str] = (0.0, "no gang")
        self.bindings = 0
        self._outages: list[tuple[float, float]] = []
        self._taken: list[tuple[str, str, int, float]] = []
        self._gangs: dict[str, _Gang] = {}
        self._by_node: dict[str, set[str]] = defaultdict(set)
        self._allocatable: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self._closing = threading.Event()
        self._watches: list[_Watch] = []

    def start(self, plane: ControlPlane) -> None:
        """Follow all nodes and pods of that cluster."""
        self._watches = [
            _Watch(plane, plural, told, self._closing)
            for plural, told in (("nodes", self.hear_of_node), ("pods", self.hear_of_pod))
        ]
        for watch in self._watches:
            watch.start()
            watch.listed.wait(30)

    def stop(self) -> None:
        self._closing.set()
        for watch in self._watches:
            watch.close()
            watch.join(10)

    def was_away(self, seconds: float) -> None:
        """Nobody could act for so long: the API server was away, or Corral's."""
        with self.lock:
            self._outages.append((self._clock(), seconds))

    def living(self) -> list[SeenPod]:
        """Pods that wait or run."""
        with self.lock:
            return [pod for pod in self.pods.values() if not pod.ended and not pod.tombstone]

    def ours(self) -> list[SeenPod]:
        """Pods that Corral made."""
        with self.lock:
            return [pod for pod in self.pods.values() if pod.ours]

    def look_at_halves(self) -> None:
        """Gangs that are bound in part still count, too."""
        with self.lock:
            for name, gang in self._gangs.items():
                self._look_at(name, gang)

    def hear_of_node(self, kind: str, node: Json) -> None:
        with self.lock:
            amount = 0 if kind == "DELETED" else int(node["status"].get("allocatable", {}).get(GPUS, 0))
            name = node["metadata"]["name"]
            self._allocatable[name].append((self._clock(), amount))
            for pod in (self.pods[uid] for uid in self._by_node[name]) if kind == "DELETED" else ():
                pod.lost_node = pod.lost_node or not pod.gone

    def hear_of_pod(self, kind: str, item: Json) -> None:
        with self.lock:
            uid = item["metadata"]["uid"]
            pod = self.pods.get(uid)
            if pod is None:
                pod = self.pods[uid] = _seen(item)
            _update(pod, item, gone=kind == "DELETED")
            node = item["spec"].get("nodeName") or ""
            if node and not pod.node:
                pod.node = node
                self._by_node[node].add(uid)
                if pod.bound_by_us:
                    self._look_at_node(pod)
            if pod.gang:
                gang = self._gangs.setdefault(pod.gang, _Gang(pod.gang_size))
                gang.members[uid] = pod
                self._look_at(pod.gang, gang)

    def _look_at_node(self, bound: SeenPod) -> None:
        self.bindings += 1
        taken = sum(self.pods[uid].gpus for uid in self._by_node[bound.node] if self.pods[uid].lives)
        self._taken.append((f"{bound.namespace}/{bound.name}", bound.node, taken, self._clock()))

    @property
    def overfull(self) -> list[str]:
        """Each binding of Corral's for which its node had too few devices. An outage is known of once it is over."""
        with self.lock:
            return [
                f"{pod}: {taken} devices of {node} are taken"
                for pod, node, taken, at_s in self._taken
                if not self.fitted(node, taken, at_s)
            ]

    def fitted(self, node: str, gpus: int, at_s: float) -> bool:
        """Whether a node had so many devices then, as far as anybody could know."""
        with self.lock:
            known = self._allocatable[node]
            since_s = at_s - SHRUNK_LATELY_S
            for over_s, seconds in reversed(self._outages):
                if since_s < over_s <= at_s:
                    since_s -= seconds
            before = [amount for told_s, amount in known if told_s < since_s][-1:]
            lately = [amount for told_s, amount in known if since_s <= told_s <= at_s]
        return gpus <= max([*before, *lately], default=0)

    def _look_at(self, name: str, gang: _Gang) -> None:
        bound = [pod for pod in gang.members.values() if pod.bound_by_us]
        gang.was_whole = gang.was_whole or len(bound) >= gang.size
        half = not gang.was_whole and any(pod.lives and not pod.deleting for pod in bound)
        now_s = self._clock() - sum(seconds for _, seconds in self._outages)
        if half and gang.half_since_s is None:
            gang.half_since_s = now_s
        if gang.half_since_s is not None:
            self.longest_half = max(self.longest_half, (now_s - gang.half_since_s, name))
        if not half:
            gang.half_since_s = None


def _seen(item: Json) -> SeenPod:
    metadata, spec = item["metadata"], item["spec"]
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    ours = "corral.dev/server" in labels
    size = int(notes.get("corral.dev/members" if ours else "corral.dev/gang-size", 1))
    gang = labels.get("corral.dev/allocation", "") if ours else notes.get("corral.dev/gang", "")
    limits = spec["containers"][0].get("resources", {}).get("limits") or {}
    return SeenPod(
        metadata["uid"],
        metadata["namespace"],
        metadata["name"],
        int(limits.get(GPUS, 0)),
        gang if size > 1 else "",
        size,
        ours,
        notes.get("corral.dev/job", ""),
        labels.get("corral.dev/allocation", ""),
        labels.get("corral.dev/rank", "0"),
        "corral.dev/tombstone" in labels,
        time.monotonic(),
    )


def _update(pod: SeenPod, item: Json, *, gone: bool) -> None:
    status, metadata, now_s = item.get("status") or {}, item["metadata"], time.monotonic()
    pod.bound_by_us = pod.ours or "corral.dev/bound-for" in (metadata.get("annotations") or {})
    pod.phase = status.get("phase") or "Pending"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        if pod.began_s is None and {"running", "terminated"} & state.keys():
            pod.began_s = now_s
        if (ended := state.get("terminated")) is not None and pod.exit_code is None:
            pod.exit_code = ended["exitCode"]
    was_deleting, pod.deleting = pod.deleting, pod.deleting or "deletionTimestamp" in metadata
    if pod.ended_s is None:
        over = pod.phase in ("Succeeded", "Failed")
        pod.deleted_first = was_deleting or (pod.deleting and not over)
        pod.ended_s = now_s if over or gone else None
    pod.gone_s = now_s if gone else None


class _Watch(threading.Thread):
    """Tells of each object of one kind in the order of its changes."""

    def __init__(
        self, plane: ControlPlane, plural: str, told: Callable[[str, Json], None], until: threading.Event
    ) -> None:
        super().__init__(name=f"record-{plural}", daemon=True)
        self.listed = threading.Event()
        self._url = urlsplit(plane.url)
        self._tls = ssl.create_default_context(cafile=plane.authority)
        self._path = f"/api/v1/{plural}"
        self._told = told
        self._closing = until
        self._known: dict[str, Json] = {}
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        while not self._closing.is_set():
            try:
                self._follow(self._list())
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                self._closing.wait(0.2)

    def _list(self) -> str:
        with self._asked(self._path) as answer:
            listing = json.loads(answer.read())
        found = {item["metadata"]["uid"]: item for item in listing["items"]}
        # What went counts before what came: in which order it was nobody knows any more.
        for uid in self._known.keys() - found.keys():
            self._hear("DELETED", self._known[uid])
        for item in sorted(found.values(), key=lambda one: int(one["metadata"]["resourceVersion"])):
            if self._known.get(item["metadata"]["uid"]) != item:
                self._hear("MODIFIED", item)
        self.listed.set()
        return str(listing["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        with self._asked(f"{self._path}?watch=1&resourceVersion={version}") as answer:
            while not self._closing.is_set() and (line := answer.readline()):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                self._hear(event["type"], event["object"])

    def _hear(self, kind: str, item: Json) -> None:
        uid = item["metadata"]["uid"]
        if kind == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = item
        self._told(kind, item)

    @contextmanager
    def _asked(self, target: str) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPSConnection(
            self._url.hostname or "", self._url.port, timeout=600, context=self._tls
        )
        with closing(connection):
            connection.connect()
            self._socket = connection.sock
            connection.request("GET", target, headers={"Authorization": f"Bearer {ADMIN}"})
            with connection.getresponse() as answer:
                if answer.status != 200:
                    raise OSError(f"{target}: {answer.status}")
                yield answer


def counted(pods: Mapping[str, SeenPod]) -> str:
    """How many pods of which kind there were."""
    ours = [pod for pod in pods.values() if pod.ours]
    deleted = sum(pod.deleting and not pod.ours for pod in pods.values())
    tombstones = sum(pod.tombstone for pod in ours)
    others = f"{len(pods) - len(ours)} pods of others, {deleted} of them deleted"
    return f"{others}; {len(ours) - tombstones} pods of jobs, and {tombstones} that only keep a name from use"
