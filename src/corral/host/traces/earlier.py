"""Traces of an earlier ledger in a home. They are found and moved aside before a new ledger begins."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from corral.core.model.errors import Conflict
from corral.core.model.home import Home
from corral.host.traces.homes import DIRECTORIES, names

_LEDGER = ("ledger.db", "ledger.db-wal", "ledger.db-shm")
_DATABASES = ("history.db", "deliveries.db")
_BESIDE = ("", "-wal", "-shm")
_OF_ONE_LEDGER = (
    *_LEDGER,
    *(name + ending for name in _DATABASES for ending in _BESIDE),
    *DIRECTORIES,
    "claims",
    "nodes",
    "cluster-tag",
    "clock.json",
)
"""The files and directories of one ledger, in the order in which they are moved. The ledger is first: if the move is
interrupted, the rest keeps a new ledger from beginning.
"""

_UNFINISHED = "earlier-unfinished"
"""The directory into which all of them are moved, until the move is complete: a ledger and its log are only usable
together.
"""

_MOST_LISTED = 8


def refuse_without_ledger(home: Home) -> None:
    """Raise Conflict if the home has traces of an earlier ledger. Call it for a home whose ledger is missing or empty.

    A server creates none of these traces before its ledger is on disk. So a server that was killed at its first start
    leaves none.
    """
    found = list(_left(home))
    if not found:
        return
    raise Conflict(
        f"there is no ledger in {home.root} (ledger.db is missing or empty), but one was there before: it has left "
        f"{_listed(found)}. Put ledger.db back, with ledger.db-wal if there is one, or put a backup in its place "
        "(docs/install.md, Restore from a backup). `corral up --anew` moves all that aside and begins anew"
    )


def move_aside(home: Home) -> Path | None:
    """Move everything that belongs to the ledger of this home into a new directory there. Return it, None if there is
    nothing to move.

    Settings and tokens of the owner stay. A repeated call continues an interrupted move. Raises OSError.
    """
    there = [name for name in _OF_ONE_LEDGER if os.path.lexists(home.root / name)]
    if not any(name in there for name in _LEDGER) and not list(_left(home)):
        return None
    unfinished = home.root / _UNFINISHED
    if any(os.path.lexists(unfinished / name) for name in there):
        # Another ledger was begun by hand after an interrupted move: the two must not be mixed.
        unfinished.rename(_dated(home))
    unfinished.mkdir(mode=0o700, exist_ok=True)
    for name in there:
        (home.root / name).rename(unfinished / name)
    return unfinished.rename(_dated(home))


def _dated(home: Home) -> Path:
    return home.root / f"earlier-{time.strftime('%Y-%m-%dT%H-%M-%S', time.gmtime())}.{time.time_ns() % 10**9:09d}"


def _left(home: Home) -> Iterator[str]:
    """Describe the traces that only an earlier ledger can have left."""
    with suppress(OSError):
        if (home.root / "ledger.db-wal").stat().st_size:
            yield "ledger.db-wal"
    if os.path.lexists(home.root / _UNFINISHED):
        yield _UNFINISHED
    yield from _left_in(home.root, "")
    for node in names(home.nodes):
        yield from _left_in(home.nodes / node, f"nodes/{node}/")


def _left_in(root: Path, shown: str) -> Iterator[str]:
    for name in DIRECTORIES:
        count = len(names(root / name))
        if count:
            yield f"{shown}{name} ({count})"
    for name in ("claims", *_DATABASES):
        if os.path.lexists(root / name):
            yield f"{shown}{name}"


def _listed(found: list[str]) -> str:
    shown = found[:_MOST_LISTED]
    return ", ".join(shown) + (f" and {len(found) - len(shown)} more" if len(found) > len(shown) else "")
