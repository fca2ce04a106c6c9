"""Which commit the directory of a job is at, and whether tracked files differ from it.

Whoever wrote the repository may not be trusted. So nothing that its configuration names is executed: no monitor of
files, no hook, no filter, no remote helper, no pager.
"""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WITHIN_S = 0.3
TRUST_S = 2.0
"""A loop that submits asks once."""

_MOST_BYTES = 1024 * 1024
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_FILTERS = ("config", "-z", "--name-only", "--get-regexp", r"^filter\.")
_STATUS = (
    *("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=all"),
    *("--no-renames", "--no-ahead-behind", "-z"),
)
_known: dict[str, tuple[float, tuple[str, bool] | None]] = {}


def git_commit(directory: str) -> tuple[str, bool] | None:
    """The full name of the commit, and whether a tracked file differs; None where that cannot be told in time."""
    now = time.monotonic()
    at, found = _known.get(directory, (-TRUST_S, None))
    if now - at < TRUST_S:
        return found
    found = _read(directory, now + WITHIN_S) if _in_work_tree(directory) else None
    _known[directory] = now, found
    return found


def _in_work_tree(directory: str) -> bool:
    """Whether it looks so: to ask git costs a process."""
    while True:
        if os.path.lexists(f"{directory}/.git"):
            return True
        above = os.path.dirname(directory)
        if above == directory:
            return False
        directory = above


def _read(directory: str, until: float) -> tuple[str, bool] | None:
    filters = _git(directory, _FILTERS, until)
    if filters is None:
        return None
    names = {key.rpartition(".")[0] for key in filters.split("\0") if key}
    # A name with = cannot be said with -c.
    if any("=" in name for name in names):
        return None
    off = [word for name in sorted(names) for word in ("-c", f"{name}.clean=", "-c", f"{name}.process=")]
    off += [word for name in sorted(names) for word in ("-c", f"{name}.required=false")]
    status = _git(directory, (*off, *_STATUS), until)
    if status is None:
        return None
    lines = status.split("\0")
    commit = next((line.rpartition(" ")[2] for line in lines if line.startswith("# branch.oid ")), "")
    dirty = any(line and not line.startswith("# ") for line in lines)
    return (commit, dirty) if len(commit) in (40, 64) else None


def _git(directory: str, words: Sequence[str], until: float) -> str | None:
    """What git prints in the directory; None where it fails, is not there, or takes too long."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none", "LC_ALL": "C"}
    reader, writer = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    command = ["git", "--no-pager", "-C", directory, *_SAFE, *words]
    try:
        pid = os.posix_spawnp("git", command, env, file_actions=actions, setpgroup=0)
    except OSError:
        os.close(reader)
        return None
    finally:
        os.close(writer)
        os.close(null)
    try:
        printed = _until_closed(reader, until)
    finally:
        os.close(reader)
        if printed is None:
            os.killpg(pid, signal.SIGKILL)
        # One that is killed may still wait for a file server.
        _, status = os.waitpid(pid, os.WNOHANG if printed is None else 0)
    # Without any filter, git config ends with 1.
    asked_nothing = words is _FILTERS and os.waitstatus_to_exitcode(status) == 1
    return None if printed is None or (status and not asked_nothing) else os.fsdecode(printed)


def _until_closed(reader: int, until: float) -> bytes | None:
    """All that comes; None where that is too much, or not in time."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    read = b""
    while len(read) < _MOST_BYTES and poll.poll(max(0.0, until - time.monotonic()) * 1000):
        piece = os.read(reader, 64 * 1024)
        if not piece:
            return read
        read += piece
    return None
