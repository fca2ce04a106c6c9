"""Reads the log of one job from its end on, on a thread of its own, while its screen is open."""

import queue
import threading
import time
from contextlib import suppress

from corral.client import Address
from corral.client.connecting.transport import NoServer, Transport
from corral.client.jobs import Jobs
from corral.core.model.errors import CorralError
from corral.tui.log_lines import LogLines

TAIL_LINES = 1_000
"""The number of last lines to start with, however long the log is."""

MOST_PIECES = 256
"""Pieces that wait to be shown; while there are more, the log is not read. A piece has 64 KiB at most."""

_AGAIN_S = 1.0


class LogFeed:
    """The log as `lines`, which `take` updates. `told` is a remark about it."""

    def __init__(self, address: Address, job_id: str) -> None:
        self.lines = LogLines()
        self.told = ""
        self._transport = Transport(address)
        self._job_id = job_id
        self._pieces: queue.Queue[str | None] = queue.Queue(MOST_PIECES)
        self._closed = False
        self._reader = threading.Thread(target=self._read, name="log", daemon=True)
        self._reader.start()

    def take(self) -> bool:
        """Take in new pieces. Return whether there were any."""
        anything = False
        with suppress(queue.Empty):
            for _ in range(MOST_PIECES):
                piece = self._pieces.get_nowait()
                anything = True
                if piece is None:
                    self.lines = LogLines()
                else:
                    self.lines.add(piece)
        return anything

    def close(self) -> None:
        """Read no more."""
        self._closed = True
        self._transport.end_streams()
        with suppress(queue.Empty):
            while True:
                self._pieces.get_nowait()

    def _read(self) -> None:
        while not self._closed:
            try:
                for piece in Jobs(self._transport).logs(self._job_id, follow=True, tail=TAIL_LINES):
                    if self._closed:
                        return
                    self._pieces.put(piece)
                    self.told = ""
                self.told = "end of the log"
                return
            except NoServer as error:
                self.told = str(error)
            except CorralError as error:
                self.told = str(error)
                return
            time.sleep(_AGAIN_S)
            # The log opens at its end again, which includes the lines missed meanwhile.
            self._pieces.put(None)
