"""The versions of an agent's program: each is unpacked beside the others, and used once the link is switched to it.

A running process keeps the files from which it was started. A version is removed once no process names it.
"""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from corral.host.node.installed.agent_places import AgentPlaces, CannotInstall, in_words, point

PACKAGES = "site-packages"
"""The directory of a version with its modules, for any Python. It is all that a bundle has."""

SUPERVISOR = "corral/host/runtimes/process/native/corral-supervisor"
"""The supervisor of jobs among these modules."""

MOST_UNPACKED_BYTES = 256 * 1024 * 1024
MOST_FILES = 20_000
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")
_TRIAL_S = 60.0
_SPARE_BYTES = 16 * 1024 * 1024
"""The space that is left for the agent's records and logs."""

_COMMAND = """#!/bin/sh
# The command of this version. `agent connect` is started once for each connection, so it loads little.
python={python}
case "$1 $2" in
    'agent connect') exec "$python" -I -S {packages}/corral/host/node/connect.py {socket} ;;
    'agent --'*) shift; exec "$python" -I -m corral.host.node.agent "$@" ;;
esac
exec "$python" -I -c 'import sys; from corral.cli import main; sys.exit(main())' "$@"
"""


def version_in_use(places: AgentPlaces) -> str:
    """Return the name of the version in use, "" if there is none."""
    try:
        return Path(os.readlink(places.current)).name
    except OSError:
        return ""


def versions(places: AgentPlaces) -> list[str]:
    """Return the names of the versions that are here."""
    return [path.name for path in places.versions.glob("*") if is_here(places, path.name)]


def is_here(places: AgentPlaces, version: str) -> bool:
    """Whether a version is unpacked: it got its name after its last file was written."""
    return may_name(version) and (places.versions / version).is_dir()


def may_name(version: str) -> bool:
    """Whether a version may have this name."""
    return _NAME.fullmatch(version) is not None


def unpack(places: AgentPlaces, version: str, bundle: Path, sha256: str) -> None:
    """Unpack a bundle as a version, unless it is here. Raises CannotInstall, and leaves nothing half made then."""
    if not may_name(version):
        raise CannotInstall(f"{version!r:.80} cannot name a version")
    clean(places)
    if is_here(places, version):
        return
    with in_words(bundle):
        found = hashlib.sha256(bundle.read_bytes()).hexdigest()
    if found != sha256:
        raise CannotInstall("the program arrived damaged; nothing is changed. Try again")
    draft = places.versions / f".new-{version}"
    try:
        with in_words(draft):
            draft.mkdir(mode=0o755)
            _extract(bundle, draft)
            _complete(draft, places.versions / version, places.socket)
            _try(draft)
            draft.rename(places.versions / version)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def clean(places: AgentPlaces) -> None:
    """Remove what interrupted installations have left. Call it with the lock."""
    for left in places.versions.glob(".new-*"):
        shutil.rmtree(left, ignore_errors=True)


def switch(places: AgentPlaces, version: str) -> None:
    """Let the next agent, and each new connection, start from this version. Raises CannotInstall."""
    with in_words(places.current):
        point(places.current, f"versions/{version}")


def prune(places: AgentPlaces, *keep: str) -> None:
    """Remove the versions that no process uses, except those to keep."""
    for path in sorted(places.versions.iterdir()):
        if path.name not in keep and not path.name.startswith(".") and not _is_used(path):
            shutil.rmtree(path, ignore_errors=True)


def _extract(bundle: Path, draft: Path) -> None:
    """Extract regular files and directories with plain names; a bundle has nothing else. Raises OSError."""
    try:
        with tarfile.open(bundle, "r:gz") as archive:
            members = list(_checked(archive))
            _check_space(draft, sum(member.size for member in members))
            for member in members:
                target = draft / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                source = archive.extractfile(member)
                if source is None:
                    raise CannotInstall(f"the program has an unknown kind of file, {member.name!r:.80}")
                with source, target.open("xb") as file:
                    shutil.copyfileobj(source, file)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    except (tarfile.TarError, EOFError) as error:
        raise CannotInstall(f"the program cannot be unpacked: {error}") from None
    for root, _, _ in os.walk(draft):
        Path(root).chmod(0o755)


def _checked(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    left = MOST_UNPACKED_BYTES
    for number, member in enumerate(archive):
        left -= member.size
        if number >= MOST_FILES or left < 0:
            raise CannotInstall("the program is larger than one may be")
        if member.isdir():
            continue
        parts = member.name.split("/")
        if not member.isreg() or parts[0] != PACKAGES or any(part in ("", ".", "..") for part in parts):
            raise CannotInstall(f"the program has a file that it may not have, {member.name!r:.80}")
        yield member


def _check_space(draft: Path, needed: int) -> None:
    found = os.statvfs(draft)
    free = found.f_bavail * found.f_frsize
    if free < needed + _SPARE_BYTES:
        mib = 1024 * 1024
        raise CannotInstall(
            f"the disk of {draft.parent} is full: {(needed + _SPARE_BYTES) // mib + 1} MiB are needed, "
            f"and {free // mib} MiB are free"
        )


def _complete(draft: Path, final: Path, socket: Path) -> None:
    """Make the unpacked modules an environment of this Python, whose paths are those of its final place."""
    python = Path(getattr(sys, "_base_executable", sys.executable))
    (draft / "bin").mkdir()
    (draft / "bin" / "python").symlink_to(python)
    release = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (draft / "lib" / release).mkdir(parents=True)
    (draft / "lib" / release / PACKAGES).symlink_to(f"../../{PACKAGES}")
    (draft / "pyvenv.cfg").write_text(f"home = {python.parent}\ninclude-system-site-packages = false\n")
    command = draft / "bin" / "corral"
    command.write_text(_COMMAND.format(python=final / "bin" / "python", packages=final / PACKAGES, socket=socket))
    command.chmod(0o755)
    for path in (draft / "pyvenv.cfg", draft / "bin", draft / "lib", draft / "lib" / release):
        path.chmod(0o755 if path.is_dir() else 0o644)
    _flush(draft)


def _try(draft: Path) -> None:
    """Raise CannotInstall unless the agent can be loaded here, and its supervisor of jobs be executed.

    The one that runs is not replaced by less.
    """
    try:
        subprocess.run([draft / PACKAGES / SUPERVISOR], stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotInstall(
            f"programs cannot be executed in {draft.parent}: {reason} (is it mounted noexec?)"
        ) from None
    words = [str(draft / "bin" / "python"), "-I", "-m", "corral.host.node.agent", "--help"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_TRIAL_S)
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"the new agent does not start within {_TRIAL_S:g} s; nothing is changed") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise CannotInstall(f"the new agent does not start here: {said[-1]}; nothing is changed")


def _flush(directory: Path) -> None:
    """Write the file system of a directory to its disk: after a loss of power a version is whole, or not here."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)


def _is_used(version: Path) -> bool:
    """Whether a process was started from this version, has files of it mapped, or was told of it."""
    needle = os.fsencode(f"{version}/")
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            for name in ("cmdline", "environ", "maps"):
                try:
                    if needle in (process / name).read_bytes():
                        return True
                except OSError:  # it has ended, or is another user's
                    continue
    return False
