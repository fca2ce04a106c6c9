"""A slim value of each object of a resource, as one reader keeps it."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from corral.kubernetes.cluster.watch_state import Change, Known

T = TypeVar("T")
Subscriber = Callable[[list[Change[T]]], None]


class Cache(Generic[T]):
    """What is known of the objects that a watch follows; made by its `cache`. Safe from any thread."""

    def __init__(
        self, keep: Callable[[Mapping[str, Any]], T | None], lock: threading.RLock, synced: Callable[[], bool]
    ) -> None:
        """`lock` is held by the watch while it changes what is `known`."""
        self.known = Known(keep, self._tell)
        self._lock = lock
        self._synced = synced
        self._subscribers: list[Subscriber[T]] = []

    def get(self, name: str, namespace: str = "") -> T | None:
        """The value of one object; None where there is none."""
        with self._lock:
            return self.known.get((namespace, name))

    def values(self) -> tuple[T, ...]:
        """All values, as they are at one moment."""
        with self._lock:
            return tuple(self.known.values())

    @property
    def synced(self) -> bool:
        """Whether a listing was ever complete."""
        return self._synced()

    def subscribe(self, subscriber: Subscriber[T]) -> Callable[[], None]:
        """Have what is known told at once, as objects that came, then every change, in order. Returns how to end it.

        Told in the watch's thread while its lock is held: a subscriber is quick and does not raise.
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
        """Tell nobody anything more."""
        with self._lock:
            self._subscribers = []

    def _tell(self, changes: list[Change[T]]) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(changes)
