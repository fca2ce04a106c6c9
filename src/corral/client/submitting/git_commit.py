"""Finds the commit of a job's directory, and whether tracked files differ from it.

The author of the repository may not be trusted, and may change its configuration at any time. Nothing that the
configuration names is executed: no file monitor, hook, filter, remote helper or pager. Files are compared here.
"""

from __future__ import annotations

import os
import re
import select
import signal
import stat
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WITHIN_S = 0.3
TRUST_S = 2.0
"""The time for which an answer is cached: a loop that submits jobs then asks git only once."""

_MOST_BYTES = 16 * 1024 * 1024
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_COMMIT = ("rev-parse", "--verify", "--end-of-options", "HEAD")
_STAGED = ("diff-index", "--cached", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=all", "HEAD")
_FILES = ("ls-files", "-z", "--stage", "--debug", "--", ":/")
_FILE = re.compile(
    rb"(\d{6}) ([0-9a-f]{40,64}) \d\t([^\0]+)\0  ctime: [\d:]+\n  mtime: (\d+):(\d+)\n"
    rb"  dev: .*\n  uid: .*\n  size: (\d+)\tflags: \w+\n"
)
_SUBMODULE = b"160000"
_MOST_COMPARED_BYTES = 8 * 1024 * 1024
_known: dict[str, tuple[float, tuple[str, bool] | None]] = {}


def git_commit(directory: str) -> tuple[str, bool] | None:
    """The full name of the commit, and whether a tracked file differs; None if git does not answer in time."""
    now = time.monotonic()
    at, found = _known.get(directory, (-TRUST_S, None))
    if now - at < TRUST_S:
        return found
    found = _in_time(directory, now + WITHIN_S)
    _known[directory] = now, found
    return found


def _in_time(directory: str, until: float) -> tuple[str, bool] | None:
    """The answer if it comes in time. A thread reads it: an unreachable file server blocks its reader for ever."""
    import _thread

    told: list[tuple[str, bool] | None] = []

    looked = _thread.allocate_lock()
    looked.acquire()

    def look() -> None:
        try:
            if _in_work_tree(directory):
                told.append(_read(directory, until))
        finally:
            looked.release()

    _thread.start_new_thread(look, ())
    looked.acquire(timeout=max(0.0, until - time.monotonic()))
    return told[0] if told else None


def _in_work_tree(directory: str) -> bool:
    """Whether the directory seems to be in a repository. This check saves starting git."""
    while True:
        if os.path.lexists(f"{directory}/.git"):
            return True
        above = os.path.dirname(directory)
        if above == directory:
            return False
        directory = above


def _read(directory: str, until: float) -> tuple[str, bool] | None:
    """The commit, and whether a file differs. `git status` is not used: it runs filters on files that it compares."""
    commit = _git(directory, _COMMIT, until)
    staged = None if commit is None else _git(directory, _STAGED, until)
    if commit is None or staged is None:
        return None
    if staged:
        return commit.decode().strip(), True
    files = _git(directory, _FILES, until)
    differs = None if files is None else _any_differs(directory, files, until)
    return None if differs is None else (commit.decode().strip(), differs)


def _any_differs(directory: str, files: bytes, until: float) -> bool | None:
    """Whether a file has changed since git last saw it and has other contents; None if there is too little time."""
    for mode, digest, path, seconds, nanoseconds, size in _FILE.findall(files):
        if time.monotonic() > until:
            return None
        if mode == _SUBMODULE:
            continue
        name = os.path.join(os.fsencode(directory), path)
        try:
            found = os.lstat(name)
        except OSError:
            return True
        as_seen = found.st_mtime_ns == int(seconds) * 10**9 + int(nanoseconds) and found.st_size == int(size)
        if not as_seen and _digest(name, found, len(digest)) != digest.decode():
            return True
    return False


def _digest(name: bytes, found: os.stat_result, length: int) -> str | None:
    """The object name that git would give to the file's present content; None for other types, and for large files."""
    import hashlib

    try:
        if stat.S_ISLNK(found.st_mode):
            held = os.readlink(name)
        elif stat.S_ISREG(found.st_mode) and found.st_size <= _MOST_COMPARED_BYTES:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                held = file.read(_MOST_COMPARED_BYTES + 1)
        else:
            return None
    except OSError:
        return None
    named = b"blob %d\0" % len(held) + held
    return hashlib.sha1(named).hexdigest() if length == 40 else hashlib.sha256(named).hexdigest()


def _git(directory: str, words: Sequence[str], until: float) -> bytes | None:
    """The output of git in the directory; None if git fails, is missing, or takes too long."""
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
    printed = _until_closed(reader, until)
    os.close(reader)
    if printed is None:
        os.killpg(pid, signal.SIGKILL)
    # A killed git may still hang in a file server's answer. This waits on: nothing waits for this thread.
    status = 1 << 8
    with suppress(ChildProcessError):  # the program may reap its children itself, or let the kernel do it
        _, status = os.waitpid(pid, 0)
    return None if status else printed


def _until_closed(reader: int, until: float) -> bytes | None:
    """All bytes that come; None if they are too many, or do not end in time."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    read = b""
    while len(read) < _MOST_BYTES and poll.poll(max(0.0, until - time.monotonic()) * 1000):
        piece = os.read(reader, 64 * 1024)
        if not piece:
            return read
        read += piece
    return None
