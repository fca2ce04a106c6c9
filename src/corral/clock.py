"""Clocks: the system's clock for the server, and one that is set by hand for simulators and tests."""

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from corral.files import read_start, write_anew
from corral.untrusted import Unread, guarded

LATEST = 1e11
"""The latest Unix time that is accepted as a time: the year 5138."""

CLOCKS_AGREE_S = 1.0
"""Clocks of two hosts that differ by less than this count as equal, because a message between them takes time."""

_ANCHOR_BYTES = 1024


class Clock(Protocol):
    """Time for records, monotonic time for waiting, and conversion between record time and the wall clock."""

    def now(self) -> float:
        """Unix seconds with fractions that never jump within a boot: differences are therefore durations.

        It differs from the wall clock by the changes that were made to the wall clock since it was first read.
        """
        ...

    def monotonic(self) -> float:
        """Seconds that only increase, from an arbitrary start."""
        ...

    def shown(self, at: float) -> float:
        """Convert a time of `now` to wall-clock time, for people and programs outside."""
        ...

    def taken(self, wall: float) -> float:
        """Convert a wall-clock time, as people write it, to a time of `now`."""
        ...


class SystemClock:
    """The host's clocks. `now` is the start of this boot, by the wall clock when first read, plus the time since.

    `kept_in` is a file that keeps the start across restarts of the server within one boot. `anew` ignores the file and
    reads the wall clock again, which is right if no durations are being measured.
    """

    def __init__(
        self,
        kept_in: Path | None = None,
        *,
        anew: bool = False,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._wall = wall
        kept = None if kept_in is None or anew else _read_anchor(kept_in)
        self.boot_at = self._wall() - uptime_s() if kept is None else kept
        """The start of this boot, as a time of `now`."""
        if kept_in is not None and kept is None:
            _write_anchor(kept_in, self.boot_at)

    def now(self) -> float:
        """Unix seconds from `boot_at`, by CLOCK_BOOTTIME, which also counts while the machine is suspended."""
        return self.boot_at + uptime_s()

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def shown(self, at: float) -> float:
        """The wall-clock time. Times of this boot shift with changes of the wall clock; earlier times do not change."""
        return at if at < self.boot_at else at + self._ahead_s()

    def taken(self, wall: float) -> float:
        """The inverse of `shown`. A time that the wall clock never showed becomes the start of the boot."""
        at = wall - self._ahead_s()
        return at if at >= self.boot_at else min(wall, self.boot_at)

    def _ahead_s(self) -> float:
        """The change of the wall clock in whole seconds. Smaller differences come from reading two clocks."""
        return float(round(self._wall() - self.now()))


class ManualClock:
    """A clock that stands still until it is advanced; thread-safe."""

    def __init__(self, now: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._now = now
        self._monotonic = 0.0
        self._ahead_s = 0.0

    def now(self) -> float:
        """The time that was set."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """Seconds advanced since the clock was made."""
        with self._lock:
            return self._monotonic

    def shown(self, at: float) -> float:
        """The time plus all steps of the wall clock."""
        with self._lock:
            return at + self._ahead_s

    def taken(self, wall: float) -> float:
        """The time without the steps of the wall clock."""
        with self._lock:
            return wall - self._ahead_s

    def advance(self, seconds: float) -> None:
        """Advance all clocks by `seconds`."""
        with self._lock:
            self._now += seconds
            self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back (negative seconds); no time passes."""
        with self._lock:
            self._ahead_s += seconds


def uptime_s() -> float:
    """Seconds since the boot, including suspends; setting the wall clock does not change it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """The kernel's identifier of this boot, the same in every container of the host. Raises OSError."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def known_boot_id() -> str | None:
    """Like `boot_id`, but None if /proc does not have it."""
    try:
        return boot_id()
    except OSError:
        return None


def _read_anchor(path: Path) -> float | None:
    """The start of this boot from the file; None if the file is missing, invalid, or of another boot."""
    try:
        kept = read_start(path, _ANCHOR_BYTES, follow=False)
    except OSError:
        return None
    boot_at = guarded(str(path), partial(_boot_at_in, kept))
    return None if isinstance(boot_at, Unread) else boot_at


def _boot_at_in(kept: bytes) -> float | None:
    said = json.loads(kept)
    boot_at = float(said["boot_at"])
    known = said["boot_id"] == boot_id() and math.isfinite(boot_at)
    return boot_at if known and 0 <= boot_at + uptime_s() < LATEST else None


def _write_anchor(path: Path, boot_at: float) -> None:
    """Write the start of this boot. If the disk is full, the next server reads the wall clock; nothing else happens."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        write_anew(fresh, json.dumps({"boot_id": boot_id(), "boot_at": boot_at}))
        fresh.replace(path)
    with contextlib.suppress(OSError):
        fresh.unlink(missing_ok=True)
