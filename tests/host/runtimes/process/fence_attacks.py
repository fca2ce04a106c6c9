"""A job that tries to open what is another's: `python3 -c "$(cat fence_attacks.py)" OWN OTHER`.

It prints a line for each way and file: the way, the file, and "opened" or the name of the error. A way that the machine
does not offer is left out. Its directory must be its own.
"""

import ctypes
import errno
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUSER = 0x00020000, 0x02000000, 0x10000000
OPEN = "import os, sys; os.open(sys.argv[1], os.O_RDWR)"
_libc = ctypes.CDLL(None, use_errno=True)


def outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "opened"


def in_child(prepare: Callable[[], object], attempt: Callable[[], object]) -> str:
    """The outcome in a child that is prepared first; "" where it cannot be."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with suppress(OSError):
            prepare()
            os.write(writer, outcome(attempt).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with open(reader) as told:
        return told.read()


def unshare(flags: int) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def leave_session() -> None:
    os.setsid()
    if os.fork():
        os._exit(0)


def cgroups() -> Iterator[Path]:
    """Every group above its own, and the top, in every hierarchy."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for words in mounts:
        if words[2].startswith("cgroup"):
            top = Path(words[1])
            for line in Path("/proc/self/cgroup").read_text().splitlines():
                own = top / line.split(":", 2)[2].lstrip("/")
                yield from (place for place in (own.parent, top) if place.exists())


def move_out() -> None:
    for place in cgroups():
        for name in ("cgroup.procs", "tasks", "cgroup.threads"):
            with suppress(OSError):
                (place / name).write_text("0")


def mount_cgroups() -> None:
    """Be root of a namespace, mount the hierarchies anew there, and try to move out by them."""
    unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWCGROUP)
    with tempfile.TemporaryDirectory(dir=os.curdir) as place:
        for kind in (b"cgroup2", b"cgroup"):
            if _libc.mount(b"none", place.encode(), kind, 0, b"devices" if kind == b"cgroup" else None) == 0:
                for name in ("cgroup.procs", "tasks"):
                    with suppress(OSError):
                        Path(place, name).write_text("0")
                _libc.umount(place.encode())
        move_out()


def make_again(file: str) -> None:
    """Make a device file of the same number, and open that."""
    with tempfile.TemporaryDirectory(dir=os.curdir) as place:
        copied = f"{place}/device"
        os.mknod(copied, stat.S_IFCHR | 0o666, os.stat(file).st_rdev)
        os.open(copied, os.O_RDWR)


def by_descriptor(file: str) -> None:
    """Open it without access, which anybody may, and then once more by its descriptor."""
    os.open(f"/proc/self/fd/{os.open(file, os.O_PATH)}", os.O_RDWR)


def with_nothing(file: str) -> None:
    """By another program, without any variable."""
    if subprocess.run([sys.executable, "-c", OPEN, file], env={}, stderr=subprocess.DEVNULL).returncode:
        raise OSError(errno.EPERM, "refused")


def ways(file: str) -> Iterator[tuple[str, str]]:
    def opened() -> int:
        return os.open(file, os.O_RDWR)

    yield "at once", outcome(opened)
    yield "to read", outcome(lambda: os.open(file, os.O_RDONLY))
    yield "without variables", outcome(lambda: with_nothing(file))
    yield "by a descriptor", outcome(lambda: by_descriptor(file))
    yield "made again", outcome(lambda: make_again(file))
    yield "in a child", in_child(int, opened)
    yield "after setsid", in_child(leave_session, opened)
    yield "in a user namespace", in_child(lambda: unshare(CLONE_NEWUSER), opened)
    yield "made in a user namespace", in_child(lambda: unshare(CLONE_NEWUSER | CLONE_NEWNS), lambda: make_again(file))
    yield "after moving cgroups", in_child(move_out, opened)
    yield "after mounting cgroups", in_child(mount_cgroups, opened)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for how, what in ways(name):
            if what:
                print(f"{how}: {os.path.basename(name)} {what}", flush=True)
