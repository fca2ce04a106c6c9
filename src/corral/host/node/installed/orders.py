"""What a server has done on a host over SSH: it looks, installs an agent, or removes it. Answers are lines of JSON.

`main` is called with an order and the stream from which the program of a new version comes. It writes a line for each
step, and last one with `done` or with `failed`, a sentence.
"""

import getpass
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from corral.host.node.installed import own_key, tree
from corral.host.node.installed.agent_places import AgentPlaces, CannotInstall, in_words, replace
from corral.host.node.installed.agent_service import AgentService, agent_pid

_PIECE_BYTES = 256 * 1024
_JOBS_S = 60.0
_RUNNING = """import sys
from pathlib import Path
from corral.host.runtimes.process.records.still_running import still_running
print(*still_running(Path(sys.argv[1])))
"""


def main(order: dict[str, Any], stream: BinaryIO) -> None:
    """Carry out an order, and print what came of it."""
    os.umask(0o022)
    places = AgentPlaces.own()
    try:
        done = {"look": look, "install": install, "remove": remove}[order["do"]](places, order, stream)
        _print(done=done)
    except CannotInstall as why:
        _print(failed=str(why))
    except OSError as error:
        _print(failed=f"{error.filename or 'a file'}: {error.strerror or error}")


def look(places: AgentPlaces, order: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """Return what matters to an installation, and change nothing. Raises CannotInstall for another server's host,
    and for one that this server has under another name.
    """
    check_owner(places, order)
    return {
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "user": getpass.getuser(),
        "version": tree.version_in_use(places),
        "versions": tree.versions(places),
        "runs": agent_pid(places) is not None,
    }


def install(places: AgentPlaces, order: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """Install a version and start its agent. Repeating it is safe, and so is ending it at any moment."""
    version, before = order["version"], tree.version_in_use(places)
    check_owner(places, order)
    places.make()
    with places.locked():
        # Another server may have joined this host meanwhile.
        check_owner(places, order)
        with _received(places, order["size"], stream) as bundle:
            _print(step="unpacks the program")
            tree.unpack(places, version, bundle, order["sha256"])
        settings = _content(places.home / "config.yaml")
        remarks = write_settings(places, order["settings"])
        again = version != before or settings != _content(places.home / "config.yaml")
        tree.switch(places, version)
        if order["claim"] is not None and not places.owner_file.exists():
            # Another server that installs next must find whose this host is, or its key would stay here.
            with in_words(places.owner_file):
                replace(places.owner_file, json.dumps(order["claim"]), 0o600)
        if order["public_key"] is not None:
            _print(step="writes the server's key")
            own_key.allow(places, order["public_key"], order["tag"])
        _print(step="starts the agent")
        words = ["agent", "--home", str(places.home), "--socket", str(places.socket), *order["options"]]
        service, more = AgentService(places, words).start(again=again)
        tree.prune(places, version, before)
    python = os.path.realpath(places.current / "bin" / "python")
    if places.by_root and (closed := closed_to_others(Path(python))) is not None:
        more.append(f"{closed} is closed to other users: their jobs cannot use srun. Install another Python there")
    return {"service": service, "remarks": [*remarks, *more], "command": str(places.command)}


def remove(places: AgentPlaces, order: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """End the agent and remove its installation; logs and scratch of jobs stay. Raises CannotInstall while jobs run."""
    check_owner(places, order)
    if not places.library.is_dir():
        own_key.forbid(places, order["tag"])
        return {"stays": None}
    with places.locked():
        # Another server may have joined this host meanwhile.
        check_owner(places, order)
        if not order["even_if_jobs_run"] and (running := running_launches(places)):
            raise CannotInstall(f"{len(running)} launches run there ({', '.join(running[:8])})")
        AgentService(places, ()).remove()
        own_key.forbid(places, order["tag"])
        places.owner_file.unlink(missing_ok=True)
        places.socket.unlink(missing_ok=True)
        with in_words(places.library):
            shutil.rmtree(places.library)
    return {"stays": str(places.home)}


def check_owner(places: AgentPlaces, order: dict[str, Any]) -> None:
    """Raise CannotInstall if the agent here serves another server, or this one under another name than `node`."""
    try:
        owner = json.loads(places.owner_file.read_text())
        other, whose, name = str(owner["server"]), str(owner.get("home", "unknown")), owner.get("name")
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise CannotInstall(f"{places.owner_file}, which says whose this host is, cannot be read") from None
    if other != order["tag"]:
        raise CannotInstall(
            f"the agent here serves another server, {whose[:200]}: remove this host there first (`corral hosts remove`)"
        )
    if isinstance(name, str) and order["node"] not in (None, name):
        raise CannotInstall(
            f"that host is node {name[:200]} of this server already: a host is joined once; to rename it, remove it "
            f"first (`corral hosts remove {name[:200]}`; if that node has left, run `corral agent release` on the host)"
        )


def write_settings(places: AgentPlaces, text: str) -> list[str]:
    """Write the agent's settings. Return remarks: a file that was changed here stays."""
    path, copy = places.home / "config.yaml", places.home / ".config-of-server.yaml"
    with in_words(path):
        if path.exists() and (not copy.exists() or path.read_bytes() != copy.read_bytes()):
            replace(copy, text, 0o600)
            if path.read_text() != text:
                return [f"{path} stays: it was changed on this host. The server's own settings are in {copy}"]
            return []
        replace(copy, text, 0o600)
        replace(path, text, 0o600)
    return []


def running_launches(places: AgentPlaces) -> list[str]:
    """Return the ids of the launches that run here. Raises CannotInstall if the installed program cannot say."""
    python = places.current / "bin" / "python"
    if not python.exists():
        return []
    try:
        done = subprocess.run(
            [python, "-I", "-c", _RUNNING, str(places.home)],
            capture_output=True,
            text=True,
            timeout=_JOBS_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotInstall(f"it is unknown whether jobs run there: {error}") from None
    return done.stdout.split()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def closed_to_others(path: Path) -> Path | None:
    """Return the part of a path that other users may not pass; None if they may."""
    for part in (path, *path.parents):
        if not part.stat().st_mode & 0o001:
            return part
    return None


@contextmanager
def _received(places: AgentPlaces, size: int, stream: BinaryIO) -> Iterator[Path]:
    """Provide the file that comes over the stream, which is removed afterwards. Raises CannotInstall."""
    path = places.library / f".arriving-{os.getpid()}"
    for left in places.library.glob(".arriving-*"):
        left.unlink(missing_ok=True)
    try:
        with in_words(path), path.open("wb") as file:
            while size and (piece := stream.read(min(size, _PIECE_BYTES))):
                file.write(piece)
                size -= len(piece)
        if size:
            raise CannotInstall("the connection was cut before the program had arrived; nothing is changed")
        yield path
    finally:
        path.unlink(missing_ok=True)


def _print(**line: Any) -> None:
    # The connection may have been cut; what was begun is finished all the same.
    with suppress(OSError):
        print(json.dumps(line), flush=True)
        return
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
