"""The server's side of the zygote, which `native/main.c` is: starts it, asks it for supervisors, reads its answers."""

import os
import socket
import subprocess
from dataclasses import dataclass

from corral.host.runtimes.process import native_supervisor
from corral.host.runtimes.process.records.launch_spec import LaunchError
from corral.host.runtimes.process.records.whole_files import open_regular

_ANSWER_BYTES = 4096
_END_S = 2.0
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT


@dataclass(frozen=True, slots=True)
class ZygoteAnswer:
    """The zygote's answer about one launch.

    `pidfd` belongs to the receiver; it is None also if this process has no room for another descriptor. No supervisor
    runs if it has `ended` already, or if `error` says why none was forked.
    """

    launch_id: str
    pidfd: int | None
    ended: bool
    error: str


class ZygoteLink:
    """One zygote and the socket to it. Closing the socket ends the zygote, and no supervisor."""

    def __init__(self, launches: str, errors_path: str) -> None:
        try:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise LaunchError(f"cannot make the socket that jobs are launched through: {error.strerror}") from error
        try:
            with theirs, os.fdopen(open_regular(errors_path, _APPEND), "ab") as errors:
                self._process = subprocess.Popen(
                    [native_supervisor.PATH, str(theirs.fileno()), launches],
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    env={},
                    cwd="/",
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except OSError as error:
            self._socket.close()
            raise LaunchError(f"cannot start the process that launches jobs: {error}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._socket.fileno()

    def request(self, launch_id: str) -> bool:
        """Request a supervisor for a launch. Return False if the zygote is gone."""
        try:
            self._socket.send(launch_id.encode(), socket.MSG_NOSIGNAL)
        except OSError:
            return False
        return True

    def receive(self) -> ZygoteAnswer | None:
        """Wait for the next answer and return it; None if the zygote is gone."""
        try:
            data, handles, _, _ = socket.recv_fds(self._socket, _ANSWER_BYTES, 1)
        except OSError:
            return None
        if not data:
            return None
        verb, launch_id, *rest = data.decode().split(" ", 2)
        for handle in handles:
            os.set_inheritable(handle, False)
        error = f"cannot fork a supervisor: {rest[0]}" if verb == "failed" else ""
        return ZygoteAnswer(launch_id, handles[0] if handles else None, verb == "gone", error)

    def kill(self) -> None:
        """Kill a zygote that does not answer; it is then handled like one that died."""
        self._process.kill()

    def close(self) -> None:
        """End the zygote and wait for its end. A zygote that a job has stopped is killed. Supervisors go on."""
        self._socket.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
