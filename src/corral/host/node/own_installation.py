"""The agent's own program, as the server that installed it sees it: it is replaced while jobs run, or removed."""

import hashlib
import json
import logging
import os
import platform
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import corral
from corral.core.model.errors import BackendFailed, Conflict, Refused
from corral.core.model.home import Home
from corral.core.ports.node import InstallationState
from corral.host.node.installed import tree
from corral.host.node.installed.agent_places import AgentPlaces, CannotInstall, in_words
from corral.host.node.installed.orders import write_settings
from corral.host.runtimes.process.records.still_running import still_running
from corral.wire import bytes_in

log = logging.getLogger(__name__)

MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of a version, as they are sent."""

_MOST_PIECE_BYTES = 1024 * 1024

_REMOVE = """import sys
from corral.host.node.installed.orders import main
main({order}, sys.stdin.buffer)
"""


class OwnInstallation:
    """Implements `corral.core.ports.node.Installation`. `replace` ends the agent, whose successor takes its place."""

    def __init__(self, home: Home, places: AgentPlaces, replace: Callable[[], None]) -> None:
        self._home = home
        self._places = places
        self._replace = replace
        self._lock = threading.Lock()
        self._instance = secrets.token_hex(8)
        self._offered: tuple[str, int, str] | None = None

    @property
    def version(self) -> str:
        """The name of the version that runs; "" if this agent was not installed by a server."""
        running = Path(sys.prefix)
        return running.name if running.parent == self._places.versions else ""

    def state(self) -> InstallationState:
        return InstallationState(
            instance=self._instance,
            version=self.version,
            release=corral.__version__,
            machine=platform.machine(),
            libc=" ".join(platform.libc_ver()).strip(),
            launches=tuple(still_running(self._home.root)),
        )

    def offer(self, version: str, size: int, sha256: str) -> int:
        self._check()
        if not tree.may_name(version):
            raise Refused(f"{version!r:.80} cannot name a version", field="version")
        if not 0 < size <= MOST_BYTES:
            raise Refused(f"a version of {size} bytes is not taken; one may have {MOST_BYTES}", field="size")
        with self._lock, _told():
            self._offered = version, size, sha256
            if tree.is_here(self._places, version):
                return size
            path = self._arriving(sha256)
            for left in self._places.library.glob(".offered-*"):
                if left != path:
                    left.unlink(missing_ok=True)
            with in_words(path):
                path.touch(0o600)
                return min(path.stat().st_size, size)

    def write(self, version: str, offset: int, data: str) -> int:
        self._check()
        piece = bytes_in(data, _MOST_PIECE_BYTES, field="data")
        with self._lock, _told():
            size, sha256 = self._announced(version)
            path = self._arriving(sha256)
            with in_words(path), path.open("r+b") as file:
                here = file.seek(0, os.SEEK_END)
                if offset > here or offset + len(piece) > size:
                    raise Refused(
                        f"{here} of {size} bytes are here, and none come from byte {offset} on", field="offset"
                    )
                file.seek(offset)
                file.write(piece)
                return max(here, offset + len(piece))

    def switch(self, version: str, settings: str) -> None:
        self._check()
        with self._lock, _told():
            _, sha256 = self._announced(version)
            path = self._arriving(sha256)
            with self._places.locked():
                before = tree.version_in_use(self._places)
                try:
                    tree.unpack(self._places, version, path, sha256)
                finally:
                    # Damaged bytes are sent anew.
                    path.unlink(missing_ok=True)
                for remark in write_settings(self._places, settings):
                    log.warning("%s", remark)
                tree.switch(self._places, version)
                tree.prune(self._places, version, before)
        log.info("version %s takes this agent's place; its jobs run on", version)
        self._replace()

    def remove(self, *, even_if_jobs_run: bool) -> None:
        self._check()
        if not even_if_jobs_run and (running := still_running(self._home.root)):
            raise Conflict(f"{len(running)} launches run there: {', '.join([*running][:8])}")
        try:
            tag = json.loads(self._places.owner_file.read_text())["server"]
        except (OSError, ValueError, KeyError, TypeError):
            raise BackendFailed(f"{self._places.owner_file}, which says whose this host is, cannot be read") from None
        order = {"do": "remove", "tag": tag, "node": None, "even_if_jobs_run": True}
        # It ends this process, and outlives it.
        with _told(), in_words(self._places.home), (self._places.home / "agent.log").open("ab") as told:
            subprocess.Popen(
                [sys.executable, "-I", "-c", _REMOVE.format(order=order)],
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
                cwd="/",
                start_new_session=True,
            )

    def _check(self) -> None:
        if not self.version:
            raise Conflict("this agent was not installed by a server: upgrade or remove it on its host")

    def _announced(self, version: str) -> tuple[int, str]:
        if self._offered is None or self._offered[0] != version:
            raise Refused(f"version {version!r:.80} was not offered", field="version")
        return self._offered[1:]

    def _arriving(self, sha256: str) -> Path:
        return self._places.library / f".offered-{hashlib.sha256(sha256.encode()).hexdigest()[:16]}"


@contextmanager
def _told() -> Iterator[None]:
    """Raise CannotInstall of the block as BackendFailed."""
    try:
        yield
    except CannotInstall as why:
        raise BackendFailed(str(why)) from None
