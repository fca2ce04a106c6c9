"""A command that runs inside a job, for the caller that started it."""

import json
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from corral.client.connecting.transport import NoServer, Transport
from corral.core.model.errors import BackendFailed
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.core.model.answers.job_changes import InputProgress

INPUT_TIMEOUT_S = 40.0
_HEADER = struct.Struct(">BI")
_END = 0
_ENDED = "the server or the job's node went away, which ended the command; the job may run on"
STDOUT = 1
"""The number of standard output, which is its descriptor. Standard error is 2."""


class InnerProcess:
    """A command inside a job. Keep reading its output: the command ends when nobody reads the output any more.

    Attributes:
        path: its route on the server.
        exit_code: its exit code, as a shell gives it, once `output` has ended.
        message: the reason why it could not be started, or was ended by others.
    """

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self.path = path
        self.exit_code: int | None = None
        self.message: str | None = None

    def output(self) -> Iterator[tuple[int, bytes]]:
        """The output of the command until it ends, each piece with STDOUT or 2.

        Raises BackendFailed if the server or the job's node goes away: the command has then ended, too.
        """
        waiting = b""
        for block in self._blocks():
            waiting += block
            while len(waiting) >= _HEADER.size:
                stream, length = _HEADER.unpack_from(waiting)
                if len(waiting) < _HEADER.size + length:
                    break
                piece, waiting = waiting[_HEADER.size : _HEADER.size + length], waiting[_HEADER.size + length :]
                if stream == _END:
                    said = json.loads(piece)
                    self.exit_code, self.message = int(said["exit_code"]), said["message"]
                    return
                yield stream, piece
        raise BackendFailed(_ENDED)

    def _blocks(self) -> Iterator[bytes]:
        try:
            yield from self._transport.stream(f"{self.path}/output")
        except NoServer as error:
            raise BackendFailed(_ENDED) from error

    def write_input(self, data: bytes = b"", *, offset: int, end: bool = False) -> "InputProgress":
        """The same as `corral.client.jobs.Jobs.write_input`, for this command."""
        from corral.core.model.answers.job_changes import InputProgress

        answer = self._transport.post_bytes(
            f"{self.path}/input", data, timeout_s=INPUT_TIMEOUT_S, offset=offset, end=end or None
        )
        return from_answer(InputProgress, answer)

    def resize_terminal(self, rows: int, columns: int) -> None:
        """Set the size of its terminal."""
        self._transport.post(f"{self.path}/terminal", {"rows": rows, "columns": columns}, repeatable=True)
