"""A small value of each object of a resource, kept for one reader."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from corral.engines.kubernetes.cluster.watch_state import Change, Known

T = TypeVar("T")
Subscriber = Callable[[list[Change[T]]], None]


class Cache(Generic[T]):
    """The values of the objects that a watch follows. The watch's method `cache` makes it. Safe from any thread."""

    def __init__(
        self, keep: Callable[[Mapping[str, Any]], T | None], lock: threading.RLock, synced: Callable[[], bool]
    ) -> None:
        """The watch holds `lock` while it changes `known`."""
        self.known = Known(keep, self._tell)
        self._lock = lock
        self._synced = synced
        self._subscribers: list[Subscriber[T]] = []

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return the value of one object, or None if there is no such object."""
        with self._lock:
            return self.known.get((namespace, name))

    def values(self) -> tuple[T, ...]:
        """Return all values as of one moment."""
        with self._lock:
            return tuple(self.known.values())

    @property
    def synced(self) -> bool:
        """Whether a listing was ever complete, so that all objects are known."""
        return self._synced()

    def subscribe(self, subscriber: Subscriber[T]) -> Callable[[], None]:
        """Report all known values at once, as objects that came, then every change in order. Return a function that
        ends it.

        The subscriber is called in the watch's thread while its lock is held: it must be quick and must not raise.
        """
        with self._lock:
            if known := [Change[T](None, value) for value in self.known.values()]:
                subscriber(known)
            self._subscribers.append(subscriber)

        def end() -> None:
            with self._lock:
                if subscriber in self._subscribers:
                    self._subscribers.remove(subscriber)

        return end

    def let_go(self) -> None:
        """Remove all subscribers."""
        with self._lock:
            self._subscribers = []

    def _tell(self, changes: list[Change[T]]) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(changes)
