"""A shell on a host, through `ssh` with all keys of the server's account. What it writes comes back, bounded."""

import selectors
import subprocess
import tempfile
import time
from collections.abc import Sequence

from corral.engines.hosts.installing.installer import ShellOutput
from corral.engines.hosts.ssh import SshFailed, SshFailure, SshRoute, failure_of

MOST_BYTES = 1024 * 1024
"""The most that a host may write on each of its two streams."""

_NOT_CONNECTED = 255
_PIECE_BYTES = 64 * 1024


class HostShell:
    """Implements RunThere. Raises SshFailed if `ssh` cannot reach the host."""

    def __init__(self, route: SshRoute, *, accept_new: bool = False) -> None:
        self._destination = route.destination
        self._words = route.single_session("sh -s", accept_new=accept_new)

    def __call__(self, script: bytes, timeout_s: float) -> ShellOutput:
        status, said, complaints = _run(self._words, script, timeout_s)
        ran = ShellOutput(said.decode(errors="replace"), complaints.decode(errors="replace"))
        if status is None or status == _NOT_CONNECTED:
            raise SshFailed(failure_of(self._destination, status, ran.complaints))
        return ran


def _run(words: Sequence[str], script: bytes, timeout_s: float) -> tuple[int | None, bytes, bytes]:
    """Return the exit status and what was written; None for the status of a program that was ended."""
    deadline = time.monotonic() + timeout_s
    with _started(words, script) as process:
        try:
            said, complaints = _read(process, deadline)
            return process.wait(max(0.0, deadline - time.monotonic())), said, complaints
        except (TimeoutError, subprocess.TimeoutExpired):
            process.kill()
            return None, b"", b""


def _started(words: Sequence[str], script: bytes) -> "subprocess.Popen[bytes]":
    """Return a program with this input. Raises SshFailed, also for a full disk here."""
    try:
        with tempfile.TemporaryFile() as given:
            given.write(script)
            given.seek(0)
            return subprocess.Popen(
                words, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
    except FileNotFoundError:
        why = "there is no ssh here: install OpenSSH's client"
    except OSError as error:
        why = f"ssh cannot be started here: {error.strerror}"
    raise SshFailed(SshFailure(why, by_person=True))


def _read(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """Return what a process writes on its two streams until both end. Raises TimeoutError, also for too much."""
    assert process.stdout is not None
    assert process.stderr is not None
    heard = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as streams:
        for stream in heard:
            streams.register(stream, selectors.EVENT_READ)
        while streams.get_map():
            ready = streams.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                stream = process.stdout if key.fileobj is process.stdout else process.stderr
                piece = stream.read1(_PIECE_BYTES)  # type: ignore[attr-defined]
                heard[stream] += piece
                if not piece:
                    streams.unregister(stream)
                if len(heard[stream]) > MOST_BYTES:
                    raise TimeoutError
    return bytes(heard[process.stdout]), bytes(heard[process.stderr])
