"""The keeper of a command that runs inside a job: runs it for a node agent, and ends it when that hangs up.

See `process_execution`, the agent's side, and `native/exec.c`, whose place this takes where it is not compiled.
"""

import ctypes
import os
import select
import signal
import socket
import struct
import traceback
from contextlib import suppress
from typing import NoReturn

from .escalation import uptime_s
from .killing import kill_descendants, tell_descendants, terminate_descendants
from .launch_records import LaunchRecords
from .start_program import StartFailed, start
from .supervisor_orders import Command

_SOCKET = "exec"
_NAME = b"corral-exec"
_MESSAGE_BYTES = 128 * 1024
_STREAMS = 3
_ORDER_S = 5.0
_GRACE_S = 5.0
_RETRY_S = 0.05
_MOST_FILES = 4096
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PEER = struct.Struct("3i")
_ENDING = (int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGHUP))

_prctl = ctypes.CDLL(None).prctl


class _Given:
    """The streams that an agent has sent."""

    __slots__ = ("is_terminal", "stderr", "stdin", "stdout")

    def __init__(self, fds: list[int], *, is_terminal: bool) -> None:
        self.stdin, self.stdout, self.stderr = fds
        self.is_terminal = is_terminal


def run_waiting_command(records: LaunchRecords) -> None:
    """Where an agent waits with a command, run it, in a process of its own. Never waits."""
    agent = _reach_agent(records.directory)
    if agent is None:
        return
    supervisor = os.getpid()
    if os.fork() == 0:
        _keep_and_end(records, agent, supervisor)
    agent.close()


def _reach_agent(directory: str) -> socket.socket | None:
    reached = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    inside = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Through the descriptor, for a path may be longer than a socket's.
        reached.connect(f"/proc/self/fd/{inside}/{_SOCKET}")
        _, uid, _ = _PEER.unpack(reached.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        if uid in (0, os.geteuid()):
            return reached
    except OSError:
        pass
    finally:
        os.close(inside)
    reached.close()
    return None


def _keep_and_end(records: LaunchRecords, agent: socket.socket, supervisor: int) -> NoReturn:
    try:
        wake = _leave_supervisor(agent.fileno(), supervisor)
        _keep(records, agent, wake)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _leave_supervisor(agent: int, supervisor: int) -> int:
    """Be no supervisor any more, and die with it; a descriptor that tells of signals."""
    with open("/proc/self/comm", "wb", buffering=0) as comm:
        comm.write(_NAME)
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(0)
    signal.set_wakeup_fd(-1)
    # What the supervisor has open would outlive it here.
    os.closerange(3, agent)
    os.closerange(agent + 1, _MOST_FILES)
    wake, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for signum in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGALRM):
        # What is sent to every process of the job; default again when the command is executed.
        signal.signal(signum, lambda *_: None)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    return wake


def _keep(records: LaunchRecords, agent: socket.socket, wake: int) -> None:
    if not select.select([agent], [], [], _ORDER_S)[0]:
        return
    message, fds, _, _ = socket.recv_fds(agent, _MESSAGE_BYTES, _STREAMS)
    for fd in fds:
        # What the command keeps of them it has as its own three.
        os.set_inheritable(fd, False)
    kind = message[:1]
    term, *words = [os.fsdecode(word) for word in message[1:-1].split(b"\0")]
    if len(fds) != _STREAMS or not words:
        return
    orders, command = records.read_spec()
    command = command._replace(argv=words, input=None, output=None, error=None)
    if kind == b"t":
        command = _at_terminal(command, term)
    try:
        main_pid = start(command, _Given(fds, is_terminal=kind == b"t"), orders.cgroup, orders.limits)
    except StartFailed as failed:
        code = -1 if failed.exit_code is None else failed.exit_code
        _tell(agent, f"failed {code} {failed.message}")
        return
    for fd in fds:
        os.close(fd)
    _tell(agent, "started")
    _watch(agent, wake, main_pid, at_terminal=kind == b"t")


def _at_terminal(command: Command, term: str) -> Command:
    """It asks its terminal for the size, and its kind is as whoever sits there has it."""
    env = {name: value for name, value in command.env.items() if name not in ("LINES", "COLUMNS")}
    return command._replace(env={**env, **({"TERM": term} if term else {})})


def _tell(agent: socket.socket, text: str) -> None:
    with suppress(OSError):
        agent.send(text.encode(errors="backslashreplace")[:4096])


def _watch(agent: socket.socket, wake: int, main_pid: int, *, at_terminal: bool) -> None:
    """Until nothing is left of the command, which is ended when the agent hangs up or the job is told to end."""
    own, status, told, kill_at = os.getpid(), None, False, None
    listening = [agent.fileno(), wake]
    while True:
        left, how = _reap(main_pid)
        status = how if how is not None else status
        if status is not None and not told:
            # What it has left behind is ended with it, before its end is told: its output is complete then.
            kill_descendants(own)
            signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            _tell(agent, f"exited {128 + signum if signum else os.WEXITSTATUS(status)} {signum}")
            told = True
        if not left and told:
            return
        killing = told or (kill_at is not None and uptime_s() >= kill_at)
        if killing:
            kill_descendants(own)
        wait_s = _RETRY_S if killing else None if kill_at is None else max(0.0, kill_at - uptime_s())
        ready = select.select(listening, [], [], wait_s)[0]
        signums = os.read(wake, 65536) if wake in ready else b""
        if agent.fileno() in ready:
            listening = [wake]
        to_end = agent.fileno() in ready or any(signum in _ENDING for signum in signums)
        if to_end and kill_at is None and not told:
            kill_at = uptime_s() + _GRACE_S
            terminate_descendants(own)
            if at_terminal:
                # As when a terminal is closed: a shell at one takes no notice of SIGTERM.
                tell_descendants(own, signal.SIGHUP)


def _reap(main_pid: int) -> tuple[bool, int | None]:
    """Whether any process is left, and how the command ended if it just has."""
    ended = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True, ended
            if pid == main_pid:
                ended = status
    except ChildProcessError:
        return False, ended
