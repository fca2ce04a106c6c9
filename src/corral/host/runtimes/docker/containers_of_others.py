"""Names of containers that Corral did not make, for views of a GPU. A thread asks Docker; callers never wait."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from corral.core.model.devices.device import ContainerOfOthers
from corral.core.model.printable import printable
from corral.host.runtimes.docker.presence import socket_there
from corral.untrusted import Unread, guarded

_GOOD_S = 60.0
"""A known name is asked again after this time: a container may be renamed."""
_RETRY_S = 10.0
"""The time until the next question after Docker did not answer."""
_MOST = 512
"""The most names kept at a time. A host with more such containers on its GPUs asks for some of them again and again."""
_WORD_CHARS = 200


@dataclass(frozen=True, slots=True)
class _Answer:
    container: ContainerOfOthers | None
    good_until_s: float


class ContainerNames:
    """Names and images by the ids of containers. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, _Answer] = {}
        self._wanted: dict[str, None] = {}
        self._asks = False

    def of(self, container_id: str) -> ContainerOfOthers | None:
        """Return the name and image if they are known by now. Otherwise start to ask for them on a thread."""
        with self._lock:
            known = self._answers.get(container_id)
            if (known is None or known.good_until_s < time.monotonic()) and len(self._wanted) < _MOST:
                self._wanted[container_id] = None
                self._ask()
            return None if known is None else known.container

    def _ask(self) -> None:
        if not self._asks:
            self._asks = True
            threading.Thread(target=self._run, name="container-names", daemon=True).start()

    def _run(self) -> None:
        """Ask for the wanted containers until none is left."""
        while True:
            with self._lock:
                wanted, self._wanted = list(self._wanted), {}
                if not wanted:
                    self._asks = False
                    return
            self._take(_asked(wanted))

    def _take(self, found: Mapping[str, _Answer]) -> None:
        with self._lock:
            if len(self._answers) + len(found) > _MOST:
                self._answers.clear()
            self._answers.update(found)


def _asked(container_ids: list[str]) -> dict[str, _Answer]:
    """Return Docker's answer about each container. A container without an answer is unknown for a while."""
    answers: dict[str, _Answer] = {}
    if socket_there():
        # Imported here, because these libraries are large, and few GPUs are used by such containers.
        from corral.host.runtimes.docker.daemon_calls import LOOK_TIMEOUT_S, Daemon, DaemonRefused, DaemonUnreachable

        try:
            daemon = Daemon(LOOK_TIMEOUT_S)
            try:
                for container_id in container_ids:
                    named = guarded(f"container {container_id}", partial(called, daemon.inspect(container_id)))
                    if not isinstance(named, Unread):
                        answers[container_id] = _Answer(named, time.monotonic() + _GOOD_S)
            finally:
                daemon.close()
        except (DaemonUnreachable, DaemonRefused):
            pass
    later_s = time.monotonic() + _RETRY_S
    return {one: answers.get(one) or _Answer(None, later_s) for one in container_ids}


def called(found: Mapping[str, Any] | None) -> ContainerOfOthers | None:
    """Return name and image of an inspected container; None if Docker does not know it (Kubernetes may)."""
    config = None if found is None else found.get("Config")
    if found is None or not isinstance(config, Mapping):
        return None
    return ContainerOfOthers(_word(str(found.get("Name", "")).removeprefix("/")), _word(str(config.get("Image", ""))))


def _word(text: str) -> str:
    """Return untrusted text for display: without control characters for a terminal, and of limited length."""
    return printable(text[:_WORD_CHARS]) or "?"
