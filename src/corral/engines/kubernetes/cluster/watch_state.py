"""The known objects of one resource, kept up to date by listings and a watch. Does no I/O.

The caller makes the request in `next`, and reports the answer: `listed`, `checked`, `heard`, `broke` or `expired`.

- A listing is authoritative. It is compared with the known objects, so that a change between the end of a watch and the
  listing is not missed. Its pages count once the last one has come.
- A watch goes on from the version of the listing or of the last event. Events and bookmarks at or before that version
  are repeats and are ignored.
- After a watch has ended, the version of the whole is asked for before the next begins. A lower version than seen
  before means that the API server's store was restored from an older copy. A watch could then wait for ever, so
  everything is listed again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any, Generic, NamedTuple, TypeVar

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.answers import error_of_status
from corral.engines.kubernetes.cluster.client import Page
from corral.engines.kubernetes.cluster.errors import VersionExpired
from corral.engines.kubernetes.cluster.objects import mapping

T = TypeVar("T")

Key = tuple[str, str]
"""The namespace and name of an object; the namespace is "" for objects without one."""


@dataclass(frozen=True, slots=True)
class List:
    """The next request is a page of a listing. The token None means the first page."""

    continue_token: str | None


@dataclass(frozen=True, slots=True)
class Check:
    """The next request is for the current version of the whole, from the first page of a listing of one object."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The next request is for the changes since this version."""

    version: str


class Change(NamedTuple, Generic[T]):
    """A change of an object: it came (`old` is None), was deleted (`new` is None), or changed."""

    old: T | None
    new: T | None


class _Kept(NamedTuple, Generic[T]):
    uid: str
    value: T


class Known(Generic[T]):
    """The values that one reader keeps of the objects of a resource. Each object is read once for all readers.

    Args:
        keep: makes the value kept of an object, or None for irrelevant objects.
        tell: called with the changes, if there are any.
    """

    def __init__(self, keep: Callable[[Mapping[str, Any]], T | None], tell: Callable[[list[Change[T]]], None]) -> None:
        self._keep = keep
        self._tell = tell
        self._kept: dict[Key, _Kept[T]] = {}
        self._listing: dict[Key, _Kept[T]] = {}

    def get(self, key: Key) -> T | None:
        kept = self._kept.get(key)
        return None if kept is None else kept.value

    def values(self) -> Iterator[T]:
        return (kept.value for kept in self._kept.values())

    def gather(self, key: Key, uid: str, item: Mapping[str, Any]) -> None:
        """Store an object of a listing. The listing takes effect once all of it has come."""
        if (value := self._keep(item)) is not None:
            self._listing[key] = _Kept(uid, value)

    def scatter(self) -> None:
        """Drop the objects of a listing that was given up."""
        self._listing = {}

    def listed(self) -> None:
        """Replace the known objects by those of the complete listing, and report the differences."""
        before, self._kept, self._listing = self._kept, self._listing, {}
        changes: list[Change[T]] = []
        for key, kept in before.items():
            if key not in self._kept:
                changes.append(Change(kept.value, None))
        for key, kept in self._kept.items():
            changes += _changes(before.get(key), kept)
        if changes:
            self._tell(changes)

    def put(self, key: Key, uid: str, item: Mapping[str, Any]) -> None:
        """Store a new or changed object, and report the change."""
        value = self._keep(item)
        if value is None:
            self.drop(key)
            return
        before, now = self._kept.get(key), _Kept(uid, value)
        self._kept[key] = now
        if changes := _changes(before, now):
            self._tell(changes)

    def drop(self, key: Key) -> None:
        """Remove a deleted object, and report the change."""
        if (before := self._kept.pop(key, None)) is not None:
            self._tell([Change(before.value, None)])


def _changes(before: _Kept[T] | None, now: _Kept[T]) -> list[Change[T]]:
    if before is None:
        return [Change(None, now.value)]
    if before.uid != now.uid:
        # The name belongs to another object now: the deletion of the old object was missed.
        return [Change(before.value, None), Change(None, now.value)]
    return [] if before.value == now.value else [Change(before.value, now.value)]


class WatchState:
    """The next request, and the effect of answers on the readers."""

    def __init__(self, readers: Sequence[Known[Any]]) -> None:
        self._readers = readers
        self._version = ""
        self.next: List | Check | Watch = List(None)
        self.synced = False

    def listed(self, page: Page) -> None:
        """Store a page. Changes are reported once the last page has come."""
        for item in page.items:
            key, uid, _ = _identity(item)
            for reader in self._readers:
                reader.gather(key, uid, item)
        if page.continue_token is not None:
            self.next = List(page.continue_token)
            return
        self._version, self.synced = page.version, True
        self.next = Watch(page.version)
        for reader in self._readers:
            reader.listed()

    def checked(self, version: str) -> None:
        """Handle the current version of the whole: go on with the watch, or list again if the version is older than
        seen before.
        """
        backwards = _is_before(version, self._version)
        self.next = List(None) if backwards else Watch(self._version)

    def heard(self, event: Mapping[str, Any]) -> None:
        """Report the change of a watch event. Raises the error of an ERROR event, such as VersionExpired."""
        kind, body = event.get("type"), event.get("object")
        if not isinstance(body, dict):
            return
        if kind == "ERROR":
            raise _error(body)
        key, uid, version = _identity(body)
        if version == self._version or _is_before(version, self._version):
            return
        self._version = version
        self.next = Watch(version)
        for reader in self._readers:
            if kind == "DELETED":
                reader.drop(key)
            elif kind in {"ADDED", "MODIFIED"}:
                reader.put(key, uid, body)

    def broke(self) -> None:
        """Record that the watch has ended, for any reason."""
        if isinstance(self.next, Watch):
            self.next = Check()

    def expired(self) -> None:
        """Record that the API server no longer has the requested version. The next request is the first page of a
        listing.
        """
        for reader in self._readers:
            reader.scatter()
        self.next = List(None)


def _identity(item: Mapping[str, Any]) -> tuple[Key, str, str]:
    metadata = mapping(item.get("metadata"))
    key = intern(str(metadata.get("namespace") or "")), str(metadata.get("name") or "")
    return key, str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")


def _is_before(version: str, other: str) -> bool:
    """Return whether a version is older than another. Versions are numbers wherever etcd stores them; others cannot be
    compared.
    """
    numbers = version.isdecimal() and other.isdecimal() and version.isascii() and other.isascii()
    return numbers and int(version) < int(other)


def _error(status: Mapping[str, Any]) -> CorralError:
    code = status.get("code")
    reason, said = str(status.get("reason") or ""), str(status.get("message") or "")
    if code == 410 or reason in {"Expired", "Gone"}:
        return VersionExpired(said)
    return error_of_status(code if isinstance(code, int) else 500, reason, said, "watch")
