"""The pods of one server, known from its watch and from its own calls."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from corral.core.model.runs.launch import job_of, member_of
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.pods.names import Names
from corral.engines.kubernetes.pods.state import LaunchedPod, keep

AHEAD_S = 30.0
"""The time for which a call's own answer outranks a watch that lags behind it."""


class _Ahead(NamedTuple):
    """The state of a pod after a call of this server, before the watch has reported it. None once the pod was
    released.
    """

    pod: LaunchedPod | None
    uid: str
    version: str
    until_s: float


class OwnPods:
    """Pods by launch id. A caller that changes a pod sees the result at once. Safe from any thread.

    `on_change(launch_id)` is called in the watch's thread.
    """

    def __init__(self, pods: ObjectWatch, names: Names, namespace: str, on_change: Callable[[str], None]) -> None:
        self._names = names
        self._namespace = namespace
        self._on_change = on_change
        self._lock = threading.Lock()
        self._ahead: dict[str, _Ahead] = {}
        self._newest: dict[tuple[str, int], str] = {}
        self._cache = pods.cache(self.kept)
        self._cache.subscribe(self._hear)

    def kept(self, pod: Mapping[str, Any]) -> LaunchedPod | None:
        """Return the value kept of a pod, as `keep` does.

        None also for another server's pod, and for a pod that names a launch but does not have its pod's name.
        """
        metadata = mapping(pod.get("metadata"))
        if metadata.get("namespace") != self._namespace or not self._names.marks(mapping(metadata.get("labels"))):
            return None
        found = keep(pod)
        return found if found is not None and found.name == self._names.pod(found.launch_id) else None

    @property
    def synced(self) -> bool:
        """Whether a listing of the pods was ever complete."""
        return self._cache.synced

    def get(self, launch_id: str) -> LaunchedPod | None:
        """Return the pod of a launch, or None."""
        name = self._names.pod(launch_id)
        with self._lock:
            ahead = self._ahead.get(name)
        if ahead is not None and time.monotonic() < ahead.until_s:
            return ahead.pod
        return self._cache.get(name, self._namespace)

    def newest(self, job_id: str, rank: int) -> LaunchedPod | None:
        """Return the pod of the last launch of a job's member, None if there is none (any more)."""
        with self._lock:
            launch_id = self._newest.get((job_id, rank))
        return None if launch_id is None else self.get(launch_id)

    def all(self) -> tuple[LaunchedPod, ...]:
        """Return every pod, in the order of creation."""
        known = {pod.name: pod for pod in self._cache.values()}
        now = time.monotonic()
        with self._lock:
            self._ahead = {name: ahead for name, ahead in self._ahead.items() if now < ahead.until_s}
            for name, ahead in self._ahead.items():
                if ahead.pod is None:
                    known.pop(name, None)
                else:
                    known[name] = ahead.pod
        return tuple(sorted(known.values(), key=lambda pod: (pod.created_at or 0.0, pod.name)))

    def answered(self, pod: Mapping[str, Any]) -> LaunchedPod | None:
        """Store the state of a pod from the API server's answer to this server's call, and return it. None if it runs
        no launch of this server.
        """
        found = self.kept(pod)
        if found is not None:
            with self._lock:
                self._note_newest(found.launch_id)
            self._go_ahead(found.name, _Ahead(found, found.uid, found.version, time.monotonic() + AHEAD_S))
        return found

    def let_go(self, pod: LaunchedPod) -> None:
        """Record that this server has deleted the pod and released its object."""
        with self._lock:
            self._forget_newest(pod.launch_id)
        self._go_ahead(pod.name, _Ahead(None, pod.uid, pod.version, time.monotonic() + AHEAD_S))

    def _go_ahead(self, name: str, ahead: _Ahead) -> None:
        with self._lock:
            self._ahead[name] = ahead
        # The watch may already be further. It is asked without this lock, because its thread holds the cache's lock and
        # may wait for this one.
        known = self._cache.get(name, self._namespace)
        if (known is not None or ahead.pod is None) and _catches_up(ahead, known):
            with self._lock:
                if self._ahead.get(name) is ahead:
                    del self._ahead[name]
            if known is not None:
                self._on_change(known.launch_id)

    def _hear(self, changes: list[Change[LaunchedPod]]) -> None:
        for old, new in changes:
            told = new or old
            assert told is not None, "a change has a pod before or after it"
            with self._lock:
                ahead = self._ahead.get(told.name)
                if ahead is not None and told.uid == ahead.uid and _catches_up(ahead, new):
                    del self._ahead[told.name]
                if new is None:
                    self._forget_newest(told.launch_id)
                else:
                    self._note_newest(told.launch_id)
            self._on_change(told.launch_id)

    def _note_newest(self, launch_id: str) -> None:
        member = job_of(launch_id), member_of(launch_id)[1]
        before = self._newest.get(member)
        if before is None or _number(before) <= _number(launch_id):
            self._newest[member] = launch_id

    def _forget_newest(self, launch_id: str) -> None:
        member = job_of(launch_id), member_of(launch_id)[1]
        if self._newest.get(member) == launch_id:
            del self._newest[member]


def _number(launch_id: str) -> int:
    """Return the number of a launch's allocation within its job."""
    return int(member_of(launch_id)[0].rpartition(".")[2])


def _catches_up(ahead: _Ahead, known: LaunchedPod | None) -> bool:
    """Return whether the watch, with this state of the pod, is as new as the call."""
    if known is None or known.uid != ahead.uid:
        return True
    if ahead.pod is None:
        return False
    comparable = known.version.isdecimal() and ahead.version.isdecimal()
    return not comparable or int(known.version) >= int(ahead.version)
