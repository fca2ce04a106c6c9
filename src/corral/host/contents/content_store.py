"""Contents of files by their digests, for each user apart.

A user has a content by having sent it: whoever knows a digest alone gets nothing. What was not used for longest is
removed first, so that no user has more than the limit.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from corral.core.model.errors import NodeLacks, Refused
from corral.core.model.units import format_bytes
from corral.trees.text import digest_of

MOST_CONTENTS = 500_000
"""The most contents of one user."""

LEAST_FREE_BYTES = 256 * 1024 * 1024
"""The disk keeps this much room for everything else."""

SETTLES_S = 3600.0
"""A content that was used so shortly ago is not removed: its job may just be submitted."""

_NOTED_S = 600.0
_EXPIRY_S = 3600.0
_USER_CHARACTERS = 40
_PAUSES = 20
"""After a search for room in vain, so many times its own duration passes before the next one of that user."""


@dataclass(slots=True)
class _Kept:
    size: int
    used_at: float


class _OfUser:
    """The contents of one user. `lock` is held for changes; whether a content is there is read without it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        self.kept: dict[str, _Kept] = {}
        self.size = 0
        self.look_again_at = float("-inf")
        with suppress(FileNotFoundError):
            for part in os.scandir(directory):
                for entry in os.scandir(part.path):
                    found = entry.stat(follow_symlinks=False)
                    self.kept[entry.name] = _Kept(found.st_size, found.st_mtime)
                    self.size += found.st_size


class ContentStore:
    """Contents in a directory that belongs to this process's user alone. Safe from any thread."""

    def __init__(
        self,
        root: Path,
        *,
        most_bytes: int,
        keep_s: float,
        in_use: Callable[[str | None], Iterable[str]] = lambda user: (),
    ) -> None:
        """`most_bytes` is the limit of a user. What was not used for `keep_s` is removed. `in_use` returns the digests
        that the jobs of a user still need, or those of all users (None).
        """
        self._root = root
        self._most_bytes = most_bytes
        self._keep_s = keep_s
        self._in_use = in_use
        self._lock = threading.Lock()
        self._users: dict[str, _OfUser] = {}
        self._expired_at = time.monotonic()

    def has(self, user: str, digest: str) -> bool:
        """Return whether the user has this content. It waits for nothing but the first look at a user's contents."""
        own = self._of(user)
        kept = own.kept.get(digest)
        if kept is not None:
            self._use(own, digest, kept)
        return kept is not None

    def missing(self, user: str, digests: Iterable[str]) -> tuple[str, ...]:
        """Return those of the digests that the user has no content for, each once. The others count as used now."""
        return tuple(digest for digest in dict.fromkeys(digests) if not self.has(user, digest))

    def add(self, user: str, content: bytes) -> str:
        """Keep a content of a user. Return its digest. Raises Refused beyond the limit, NodeLacks for a full disk."""
        digest = digest_of(content)
        if self.has(user, digest):
            return digest
        self._expire()
        own = self._of(user)
        with own.lock:
            if self._has_room(own, len(content)):
                self._keep(own, digest, content)
                return digest
        self._look_for_room(user, own, len(content))
        with own.lock:
            if not self._has_room(own, len(content)):
                raise Refused(
                    f"the files of {user}'s jobs have {format_bytes(own.size)}, and {format_bytes(self._most_bytes)} "
                    "is the limit; wait until some of these jobs have ended, or upload less",
                    field="upload",
                )
            self._keep(own, digest, content)
        return digest

    def read(self, user: str, digest: str) -> bytes:
        """Return a content. Raises NodeLacks if the user has none of this digest, or the disk has damaged it."""
        own = self._of(user)
        content, known = b"", digest in own.kept
        if known:
            with suppress(OSError), open(_path(own, digest), "rb", buffering=0) as file:
                content = file.read()
        if not known or digest_of(content) != digest:
            self._drop(own, digest)
            raise NodeLacks(f"the content {digest[:16]} is not kept here any more; submit the directory again")
        return content

    @staticmethod
    def _drop(own: _OfUser, digest: str) -> None:
        with own.lock, suppress(OSError):
            gone = own.kept.pop(digest, None)
            if gone is not None:
                own.size -= gone.size
                os.unlink(_path(own, digest))

    def _of(self, user: str) -> _OfUser:
        return self._in(_directory_of(user))

    def _in(self, name: str) -> _OfUser:
        own = self._users.get(name)
        if own is None:
            with self._lock:
                own = self._users.get(name)
                if own is None:
                    own = self._users[name] = _OfUser(os.path.join(self._root, name))
        return own

    @staticmethod
    def _use(own: _OfUser, digest: str, kept: _Kept) -> None:
        before, kept.used_at = kept.used_at, time.time()
        if kept.used_at - before > _NOTED_S:
            with suppress(OSError):
                os.utime(_path(own, digest))

    def _keep(self, own: _OfUser, digest: str, content: bytes) -> None:
        if digest not in own.kept:
            self._write(own, digest, content)
            own.kept[digest] = _Kept(len(content), time.time())
            own.size += len(content)

    def _write(self, own: _OfUser, digest: str, content: bytes) -> None:
        path = _path(own, digest)
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for directory in (own.directory, os.path.dirname(path)):
                with suppress(FileExistsError):
                    os.mkdir(directory, 0o700)
            free = os.statvfs(own.directory)
            if free.f_bavail * free.f_frsize < LEAST_FREE_BYTES + len(content):
                raise NodeLacks(
                    f"the disk of {self._root} has less than {format_bytes(LEAST_FREE_BYTES)} left, which is kept free"
                )
            # What breaks off here, with this process, is found by its digest when it is read.
            with open(path, "wb", buffering=0, opener=_private) as file:
                _write_all(file.fileno(), content)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)
            raise NodeLacks(f"{path} cannot be written: {error.strerror}") from error

    def _has_room(self, own: _OfUser, size: int) -> bool:
        return own.size + size <= self._most_bytes and len(own.kept) < MOST_CONTENTS

    def _look_for_room(self, user: str, own: _OfUser, size: int) -> None:
        """Remove the longest unused contents that no job of the user needs. A search in vain is not repeated soon."""
        began = time.monotonic()
        if began < own.look_again_at:
            return
        settled = time.time() - SETTLES_S
        with own.lock:
            oldest = sorted((kept.used_at, digest) for digest, kept in own.kept.items() if kept.used_at < settled)
        # The directories of the user's jobs are read for this, so no lock is held.
        needed = set(self._in_use(user)) if oldest else ()
        for _, digest in oldest:
            # More is removed than one content needs: the next ones find room at once.
            if own.size + size <= self._most_bytes * 0.9 and len(own.kept) < MOST_CONTENTS * 0.9:
                break
            if digest not in needed:
                self._drop(own, digest)
        if not self._has_room(own, size):
            # Whoever sends more and more beyond the limit keeps no core busy with this.
            own.look_again_at = time.monotonic() + _PAUSES * (time.monotonic() - began)

    def _expire(self) -> None:
        """Remove what was not used for long, of all users, some time after the last time."""
        if time.monotonic() - self._expired_at < _EXPIRY_S:
            return
        self._expired_at = time.monotonic()
        needed, before = set(self._in_use(None)), time.time() - self._keep_s
        for own in [self._in(name) for name in (os.listdir(self._root) if self._root.is_dir() else ())]:
            for digest, kept in tuple(own.kept.items()):
                if kept.used_at < before and digest not in needed:
                    self._drop(own, digest)


def _path(own: _OfUser, digest: str) -> str:
    return f"{own.directory}/{digest[:2]}/{digest}"


@cache
def _directory_of(user: str) -> str:
    """The name of a user's directory: names of users may have any characters."""
    return hashlib.sha256(user.encode(errors="surrogateescape")).hexdigest()[:_USER_CHARACTERS]


def _write_all(fd: int, content: bytes) -> None:
    data = memoryview(content)
    while data:
        data = data[os.write(fd, data) :]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
