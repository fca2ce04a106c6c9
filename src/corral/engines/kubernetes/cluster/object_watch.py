"""Follows the objects of one resource in a thread of its own, for all readers that keep values of them."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from corral.core.model.errors import CorralError, Refused
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.client import EVERYTHING, Cluster, Selection
from corral.engines.kubernetes.cluster.connection import ResponseStream
from corral.engines.kubernetes.cluster.errors import ClusterFailed, ClusterUnreachable, VersionExpired
from corral.engines.kubernetes.cluster.json_text import read_json
from corral.engines.kubernetes.cluster.resource import ResourceType
from corral.engines.kubernetes.cluster.watch_state import Check, List, Watch, WatchState

_jitter = random.Random()
"""A generator of random numbers for watches only: they run on threads, and other code, such as tests, may seed the
generator of the process.
"""

WATCH_S = 300
SILENCE_S = 100.0
SHORTEST_WATCH_S = 1.0
CALL_S = 30.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 10.0

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ObjectWatch:
    """Lists and watches once for any number of caches, from `start` to `stop`.

    Args:
        cluster: the cluster of the objects.
        resource: their kind.
        selection: selects the objects.
        silence_s: the silence, without even a bookmark, after which a watch begins again.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: ResourceType,
        selection: Selection = EVERYTHING,
        *,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._cluster = cluster
        self._resource = resource
        self._selection = selection
        self._silence_s = silence_s
        self._caches: list[Cache[Any]] = []
        # The lock is held while values change and subscribers are called, so that no subscriber misses a change.
        self._lock = threading.RLock()
        self._synced = threading.Condition(self._lock)
        self._state = WatchState(())
        self._stopping = threading.Event()
        self._stream: ResponseStream | None = None
        self._failure: CorralError | None = None
        self._heard_s = time.monotonic()
        self._wait_s = FIRST_WAIT_S
        self._thread = threading.Thread(target=self._follow, name=f"watch-{resource.plural}", daemon=True)

    def cache(self, keep: Callable[[Mapping[str, Any]], T | None]) -> Cache[T]:
        """Keep a value of each object in a new cache. Call it before `start`.

        `keep` makes the value, or None for irrelevant objects. It is called in the watch's thread and must not raise,
        although objects hold untrusted text.
        """
        assert not self._thread.is_alive(), "who comes later would have missed the listing"
        made = Cache(keep, self._lock, lambda: self.synced)
        self._caches.append(made)
        return made

    def start(self) -> None:
        self._state = WatchState([cache.known for cache in self._caches])
        self._heard_s = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it. Subscribers are not called any more."""
        self._stopping.set()
        with self._lock:
            stream = self._stream
            for cache in self._caches:
                cache.let_go()
            self._synced.notify_all()
        if stream is not None:
            stream.close()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def synced(self) -> bool:
        """Whether a listing was ever complete. The values may be old: `failure` and `silent_s` say so."""
        return self._state.synced

    @property
    def failure(self) -> CorralError | None:
        """The reason why the API server cannot be followed now; None while it can."""
        return self._failure

    def silent_s(self) -> float:
        """The seconds since the API server last answered about these objects.

        A bookmark counts as an answer, and so does a watch that ended in order without an event.
        """
        return time.monotonic() - self._heard_s

    def wait_until_synced(self, timeout_s: float) -> None:
        """Wait until the first listing is complete, however many pages it has.

        Raises the cause, such as MissingRight, if no page comes for `timeout_s`.
        """
        with self._lock:
            # Errors that waiting does not correct, such as a missing right, are raised at once.
            while not (self.synced or self._stopping.is_set() or isinstance(self._failure, Refused)):
                left_s = timeout_s - self.silent_s()
                if left_s <= 0:
                    break
                self._synced.wait(left_s)
            if self.synced:
                return
            failure = self._failure
        if failure is not None:
            raise failure
        raise ClusterUnreachable(f"{self._cluster} has sent nothing about its {self._resource} for {timeout_s:.0f} s")

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except VersionExpired:
                self._state.expired()
                failure: CorralError | None = None
            except CorralError as error:
                self._state.broke()
                failure = error
            else:
                self._succeeded()
                continue
            if failure is not None:
                self._failed(failure)
            self._stopping.wait(self._wait_s * _jitter.uniform(0.5, 1))
            self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)

    def _step(self) -> None:
        """Make the request that the state asks for next."""
        match self._state.next:
            case List(continue_token):
                page = self._cluster.page(self._resource, self._selection, continue_token, timeout_s=CALL_S, once=True)
                with self._lock:
                    self._state.listed(page)
                    if self._state.synced:
                        self._synced.notify_all()
            case Check():
                page = self._cluster.page(self._resource, self._selection, limit=1, timeout_s=CALL_S, once=True)
                self._state.checked(page.version)
            case Watch(version):
                self._watch(version)

    def _watch(self, version: str) -> None:
        stream = self._cluster.watch(
            self._resource,
            self._selection,
            version,
            lasting_s=WATCH_S * _jitter.uniform(1, 1.5),
            silence_s=self._silence_s,
            timeout_s=CALL_S,
        )
        with self._lock:
            self._stream = stream
            if self._stopping.is_set():
                stream.close()
                return
        self._succeeded()
        began_s = time.monotonic()
        try:
            for line in stream.lines():
                event = read_event(line)
                with self._lock:
                    self._heard_s = time.monotonic()
                    self._state.heard(event)
                self._wait_s = FIRST_WAIT_S
        finally:
            stream.close()
        if time.monotonic() - began_s < SHORTEST_WATCH_S:
            raise ClusterFailed(f"the watch of {self._resource} ended as soon as it began")
        self._state.broke()
        self._wait_s = FIRST_WAIT_S

    def _succeeded(self) -> None:
        self._heard_s = time.monotonic()
        if self._failure is not None:
            _log.info("%s: %s are followed again", self._cluster, self._resource)
            self._failure = None

    def _failed(self, failure: CorralError) -> None:
        if self._failure is None and not self._stopping.is_set():
            _log.warning("%s: %s cannot be followed: %s", self._cluster, self._resource, failure)
        with self._lock:
            self._failure = failure
            self._synced.notify_all()


def read_event(line: bytes) -> Mapping[str, Any]:
    """Read one line of a watch. Raises ClusterFailed."""
    try:
        event = read_json(line)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise ClusterFailed("a watch has sent what is no event")
    return event
