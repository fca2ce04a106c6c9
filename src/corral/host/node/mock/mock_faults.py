"""Faults of a node, described in a mock file: the node does not answer, or it is switched off."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from corral.core.model.errors import Refused
from corral.host.telemetry.mock_cluster import ChangingMockFile, MockNode

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.2


class MockFaults:
    """Reads the mock file again whenever it changes. `switch_off` is called once, when the file says that the node is
    gone.
    """

    def __init__(self, path: Path, name: str | None, switch_off: Callable[[], None]) -> None:
        self._file = ChangingMockFile(path)
        self._name = name
        self._switch_off = switch_off
        self._answers = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mock-faults", daemon=True)

    def start(self) -> None:
        """Read the file once, then continue on a thread."""
        self._look()
        self._thread.start()

    def close(self) -> None:
        """Stop reading, and release waiting callers."""
        self._closing.set()
        self._answers.set()

    def wait_while_silent(self) -> None:
        """Wait until the node answers."""
        self._answers.wait()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        try:
            if (cluster := self._file.read_if_changed()) is not None:
                self._take(cluster.node(self._name))
        except Refused as error:
            # The source of devices logs a warning about an invalid edit.
            log.debug("%s", error)
            self._answers.set()

    def _take(self, node: MockNode) -> None:
        if node.silent:
            log.info("the mock file has this node answer nobody")
            self._answers.clear()
        else:
            self._answers.set()
        if node.gone:
            log.info("the mock file has this node switched off")
            self._closing.set()
            self._answers.set()
            self._switch_off()
