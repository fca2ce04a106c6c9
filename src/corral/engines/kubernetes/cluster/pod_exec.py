"""Commands run in containers of pods. Needs wsproto, which servers have."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from wsproto.utilities import ProtocolError

from corral.engines.kubernetes.cluster.connection import OpenLine, time_left_s
from corral.engines.kubernetes.cluster.errors import ClusterFailed, ClusterUnreachable
from corral.engines.kubernetes.cluster.exec_talk import STDERR, STDOUT, ExecTalk, exit_code_of

_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command.

    Attributes:
        exit_code: its exit code; None if it could not be run, and `stderr` says why.
        stdout: its output, at most MOST_BYTES.
        stderr: its error output, at most MOST_BYTES.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes


def begin_over(line: OpenLine, target: str, deadline_s: float, *, ends_input: bool = False) -> ExecTalk:
    """Start the command at `target` by `deadline_s` of the monotonic clock. Some of its output may have arrived.

    Raises the errors of `corral.engines.kubernetes.cluster.errors`.
    """
    talk = ExecTalk()
    with _told_as_unreachable(line, target, "the command has not begun in time"):
        line.socket.settimeout(time_left_s(deadline_s))
        line.socket.sendall(talk.ask(line.host, line.prefix + target, line.headers, ends_input=ends_input))
        while not (talk.begun or talk.over):
            _hear(line, talk, deadline_s)
        if not talk.begun:
            talk.status()
            raise ClusterFailed("Kubernetes: create pods/exec: it does not say whether the command has begun")
    return talk


def run_over(line: OpenLine, target: str, deadline_s: float) -> Ran:
    """Run the command at `target` by `deadline_s` of the monotonic clock. The command may go on after that.

    Raises the errors of `corral.engines.kubernetes.cluster.errors`.
    """
    talk = begin_over(line, target, deadline_s)
    with _told_as_unreachable(line, target, "the command has not ended in time"):
        while not talk.over:
            _hear(line, talk, deadline_s)
    line.close()
    status = talk.status()
    if status is None:
        raise ClusterFailed("Kubernetes: create pods/exec: it does not say how the command ended")
    stdout, stderr, code = talk.taken(STDOUT), talk.taken(STDERR), exit_code_of(status)
    if code is None:
        stderr += str(status.get("message") or "").encode()
    return Ran(code, stdout, stderr)


@contextmanager
def _told_as_unreachable(line: OpenLine, target: str, late: str) -> Iterator[None]:
    """A context that closes the line if something fails. Raises ClusterUnreachable if the connection fails or the time
    is up.
    """
    path = target.partition("?")[0]
    try:
        yield
    except BaseException as error:
        line.close()
        if isinstance(error, TimeoutError):
            raise ClusterUnreachable(f"{path}: {late}") from None
        if isinstance(error, OSError | ProtocolError):
            raise ClusterUnreachable(f"{path}: {error}") from None
        raise


def _hear(line: OpenLine, talk: ExecTalk, deadline_s: float) -> None:
    line.socket.settimeout(time_left_s(deadline_s))
    if answer := talk.receive(line.socket.recv(_READ_BYTES)):
        line.socket.sendall(answer)
