"""Time is a port: the server gets the system's clock, simulators and tests one that is set by hand."""

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from corral.files import read_start, write_anew

LATEST = 1e11
"""Unix seconds beyond any that a machine's clock is set to by mistake: the year 5138."""

_ANCHOR_BYTES = 1024


class Clock(Protocol):
    """Time for records, monotonic time for waiting, and what the wall clock makes of the former."""

    def now(self) -> float:
        """Unix seconds with fractions, which never jump within a boot: their differences are durations.

        Off the wall clock by as much as that was set since.
        """
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, from an unknown start."""
        ...

    def shown(self, at: float) -> float:
        """A moment of `now` as the wall clock has it: what people and programs outside are told."""
        ...

    def taken(self, wall: float) -> float:
        """A moment of the wall clock, as people name it, as `now` has it."""
        ...


class SystemClock:
    """The host's clocks. `now` is when this boot began by the wall clock, as it first was read, and the time since.

    `kept_in` is a file that keeps that over restarts of a server, for the same boot alone; `anew` reads the wall clock
    again, which is right where nothing is being measured.
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
        """When this boot began, in the seconds of `now`."""
        if kept_in is not None and kept is None:
            _write_anchor(kept_in, self.boot_at)

    def now(self) -> float:
        """Unix seconds since `boot_at`, by CLOCK_BOOTTIME: it counts while the machine is suspended, too."""
        return self.boot_at + uptime_s()

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def shown(self, at: float) -> float:
        """Moments of this boot move with the wall clock; those of earlier ones are as they were."""
        return at if at < self.boot_at else at + self._ahead_s()

    def taken(self, wall: float) -> float:
        """The other way round."""
        at = wall - self._ahead_s()
        return wall if at < self.boot_at else at

    def _ahead_s(self) -> float:
        """By how much the wall clock was set, in whole seconds: less than that is the reading of two clocks."""
        return float(round(self._wall() - self.now()))


class ManualClock:
    """A clock that stands still until it is told otherwise; safe between threads."""

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
        """With all steps of the wall clock."""
        with self._lock:
            return at + self._ahead_s

    def taken(self, wall: float) -> float:
        """Without them."""
        with self._lock:
            return wall - self._ahead_s

    def advance(self, seconds: float) -> None:
        """Let time pass: `seconds` on every clock."""
        with self._lock:
            self._now += seconds
            self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back (below 0); no time passes."""
        with self._lock:
            self._ahead_s += seconds


def uptime_s() -> float:
    """Seconds since the boot, suspends included; a wall clock that is set does not touch it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _read_anchor(path: Path) -> float | None:
    """When this boot began, None where the file tells of none, of another boot, or nothing that could be."""
    try:
        kept = json.loads(read_start(path, _ANCHOR_BYTES, follow=False))
        boot_at = float(kept["boot_at"])
        known = kept["boot_id"] == _boot_id() and math.isfinite(boot_at)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return boot_at if known and 0 <= boot_at + uptime_s() < LATEST else None


def _write_anchor(path: Path, boot_at: float) -> None:
    """Keep the beginning of this boot. A disk that takes nothing costs only that the next server reads it anew."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        write_anew(fresh, json.dumps({"boot_id": _boot_id(), "boot_at": boot_at}))
        fresh.replace(path)
    with contextlib.suppress(OSError):
        fresh.unlink(missing_ok=True)
