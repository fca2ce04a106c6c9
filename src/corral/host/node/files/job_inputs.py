"""Passes input for launches on this host to their supervisors."""

import os
import socket
from pathlib import Path

from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.runs.launch import checked_launch_id
from corral.core.ports.node import InputTaken
from corral.host.runtimes.process.output.job_input import (
    ANSWER_BYTES,
    SOCKET,
    check_size,
    portion_of,
    read_answer,
    resize_request,
    write_request,
)

ANSWER_WITHIN_S = 1.0
"""The time limit of a supervisor's answer. Supervisors answer within a millisecond, unless their job has
stopped them.
"""


class JobInputs:
    """Passes input to the launches of a home. It stores nothing, and no call waits for a program."""

    def __init__(self, launches: Path) -> None:
        self._launches = launches

    def write(self, launch_id: str, offset: int, data: str, *, end: bool) -> InputTaken | None:
        """Pass input as `corral.core.ports.node.Inputs.write` does. Raises Refused, BackendFailed."""
        portion = portion_of(data, offset)
        answer = self._ask(launch_id, write_request(offset, portion, end=end))
        return None if answer is None else InputTaken(*answer)

    def resize(self, launch_id: str, size: TerminalSize) -> None:
        """Set the size of a terminal as `corral.core.ports.node.Inputs.resize` does. Raises Refused, BackendFailed."""
        check_size(size)
        self._ask(launch_id, resize_request(size.rows, size.columns))

    def _ask(self, launch_id: str, request: bytes) -> tuple[int, bool] | None:
        """Return the supervisor's answer, None if the launch has no supervisor that takes input.

        Raises BackendFailed if the supervisor does not answer.
        """
        path = self._launches / checked_launch_id(launch_id)
        try:
            directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        # The socket is connected, so the kernel accepts only answers from this supervisor.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.settimeout(ANSWER_WITHIN_S)
            try:
                # The kernel chooses the address of this socket.
                asking.bind("")
                # The path goes through the descriptor, because the full path may be too long for a socket.
                asking.connect(f"/proc/self/fd/{directory}/{SOCKET}")
                asking.send(request)
                return read_answer(asking.recv(ANSWER_BYTES))
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
                return None
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or str(error)
                raise BackendFailed(f"launch {launch_id} does not take its input now: {why}") from None
            finally:
                os.close(directory)
