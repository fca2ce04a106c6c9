"""`srun`: assigns the tasks of a step to the members of its job, runs them there, and returns their output and exit
codes.
"""

import _thread
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import NamedTuple, NoReturn

from . import channel
from .layout import (
    Task,
    common_file,
    devices_of,
    devices_variable,
    exported,
    lay_out,
    members_of,
)
from .options import BadUsage, Options, parse
from .tasks import TaskEnd, Tasks, TaskSpec

_USAGE = 1
_LOST = 1
_KILL_WAIT_S = 30.0
_LONGEST_LINE = 256 * 1024
"""The longest line that is buffered. A longer line is written in parts."""
_TELL_AFTER_S = 10.0
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)
_IGNORED = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that srun ignores. Every process of a job, including the tasks, gets them before the job is stopped."""
_SUPERVISOR = "corral-job\n"


def main(words: list[str]) -> NoReturn:
    """Run the step of the command line, and exit with the highest code of its tasks.

    Tasks that srun itself ended, because another task failed, do not count.
    """
    try:
        options = parse(words)
        nodes = members_of(os.environ)
        tasks = lay_out(nodes, options, os.environ)
        if options.chdir is not None:
            os.chdir(options.chdir)
        if options.passed_over:
            _say(f"ignored: {', '.join(options.passed_over)}")
        code = JobStep(options, nodes, tasks).run()
    except BadUsage as error:
        _say(str(error))
        sys.exit(_USAGE)
    except OSError as error:
        _say(f"{error.filename or 'the step'}: {error.strerror}")
        sys.exit(_USAGE)
    sys.exit(code)


def _say(line: str) -> None:
    sys.stderr.write(f"srun: {line}\n")
    sys.stderr.flush()


class _Sink(NamedTuple):
    """A destination of the tasks' output. `own` means srun's standard output or error, not a file."""

    fd: int
    own: bool


class JobStep:
    """One step, from its start to the end of its last task."""

    def __init__(self, options: Options, nodes: list[str], tasks: list[Task]) -> None:
        self._options = options
        self._nodes = nodes
        self._tasks = tasks
        self._env = self._environment()
        self._selector = selectors.DefaultSelector()
        self._own_rank = int(os.environ.get("CORRAL_RANK", "0"))
        self._here = Tasks(self._selector, self._heard, self._ended)
        self._sinks = self._open_sinks()
        self._lines: dict[int, socket.socket] = {}
        self._unfinished: dict[tuple[int, int], bytes] = {}
        self._left = {task.rank for task in tasks}
        self._code = 0
        self._ending = False
        self._kill_at: float | None = None

    def _environment(self) -> dict[str, str]:
        env = exported(self._options.export, os.environ)
        if "MASTER_ADDR" not in env:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
        return env

    def _open_sinks(self) -> dict[int, _Sink]:
        """Return the destinations by stream. Standard error goes to that of standard output unless it has a file, as
        with Slurm.
        """
        output = common_file(self._options.output, os.environ)
        error = common_file(self._options.error, os.environ)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        first = _Sink(1, True) if output is None else _Sink(os.open(output, flags, 0o666), False)
        if error is not None and error != output:
            return {1: first, 2: _Sink(os.open(error, flags, 0o666), False)}
        return {1: first, 2: _Sink(2, True) if output is None else first}

    def run(self) -> int:
        """Run the step and return the highest exit code of all tasks."""
        self._watch_signals()
        remote = sorted({task.member for task in self._tasks} - {self._own_rank})
        for rank, line in self._reach(remote).items():
            self._begin_on(rank, line)
        self._begin_here()
        while self._left:
            timeout = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
            channel.serve(self._selector, timeout)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill_at = None
                self._signal(signal.SIGKILL)
        return self._code

    # Beginning

    def _reach(self, ranks: list[int]) -> dict[int, socket.socket]:
        """Return a connection to each of these members. The process that runs the script provides them. Raises
        BadUsage.
        """
        reached: dict[int, socket.socket] = {}
        if not ranks:
            return reached
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.connect(f"\0{os.environ['CORRAL_SRUN_SOCKET']}")
            line.send(",".join(map(str, ranks)).encode())
            line.settimeout(_TELL_AFTER_S)
            while len(reached) < len(ranks):
                try:
                    said, fds, _, _ = socket.recv_fds(line, channel.RANK.size, 1)
                except TimeoutError:
                    missing = [f"{rank} on {self._nodes[rank]}" for rank in ranks if rank not in reached]
                    _say(f"waiting for rank {', '.join(missing)}")
                    line.settimeout(None)
                    continue
                if not fds:
                    raise BadUsage("the job is ending")
                # The tasks on this member must not inherit the connection: its end shows the other member that srun is
                # gone.
                os.set_inheritable(fds[0], False)
                reached[channel.RANK.unpack(said)[0]] = socket.socket(fileno=fds[0])
        return reached

    def _begin_on(self, member: int, line: socket.socket) -> None:
        self._lines[member] = line
        frames = channel.Frames(line)
        umask = os.umask(0)
        os.umask(umask)
        step = {
            "argv": self._options.command,
            "env": self._env,
            "cwd": os.getcwd(),
            "umask": umask,
            "gpus_per_task": self._options.gpus_per_task,
            "tasks": [(task.rank, task.env, *self._files(task)) for task in self._tasks if task.member == member],
        }
        self._selector.register(line, selectors.EVENT_READ, lambda: self._read(member, frames))
        try:
            channel.send_json(line, channel.STEP, step)
        except OSError:
            self._lose(member)

    def _files(self, task: Task) -> tuple[str | None, str | None]:
        """Return the files that a task writes itself; its standard error goes with its output unless it has its own."""
        error = task.error
        if error is None and self._options.error is None:
            error = task.output
        return task.output, error

    def _begin_here(self) -> None:
        # Output that srun shows unchanged is not copied through a pipe.
        piped = tuple(self._options.label or not self._sinks[stream].own for stream in (1, 2))
        own = [task for task in self._tasks if task.member == self._own_rank]
        for number, task in enumerate(own):
            env = {**self._env, **task.env}
            if self._options.gpus_per_task is not None:
                variable = devices_variable(os.environ)
                try:
                    visible = os.environ.get(variable, "")
                    env[variable] = devices_of(number, self._options.gpus_per_task, visible)
                except BadUsage as error:
                    self._ended(TaskEnd(task.rank, _USAGE, 0, str(error)))
                    continue
            self._here.start(TaskSpec(task.rank, self._options.command, env, *self._files(task), (piped[0], piped[1])))

    # Going on

    def _read(self, member: int, frames: channel.Frames) -> None:
        try:
            for kind, payload in frames.read():
                if kind == channel.OUTPUT:
                    self._heard(*channel.heard(payload))
                elif kind == channel.END:
                    self._ended(TaskEnd(*json.loads(payload)))
        except (channel.Broken, ValueError):
            self._lose(member)

    def _lose(self, member: int) -> None:
        """Handle the end of the connection to a member. Tasks of the member that still run count as lost."""
        line = self._lines.pop(member)
        self._selector.unregister(line)
        line.close()
        lost = [task.rank for task in self._tasks if task.member == member and task.rank in self._left]
        for rank in lost:
            self._ended(TaskEnd(rank, _LOST, 0, f"the connection to {self._nodes[member]} broke"))
        if lost:
            self._end_all()

    def _heard(self, rank: int, stream: int, data: bytes) -> None:
        """Write whole lines, with the task's number before each if requested."""
        if self._options.unbuffered and not self._options.label:
            self._write(stream, data)
            return
        *whole, rest = (self._unfinished.get((rank, stream), b"") + data).split(b"\n")
        label = self._label(rank)
        if whole:
            self._write(stream, b"".join(label + line + b"\n" for line in whole))
        if len(rest) > _LONGEST_LINE:
            self._write(stream, label + rest + b"\n" * self._options.label)
            rest = b""
        self._unfinished[rank, stream] = rest

    def _label(self, rank: int) -> bytes:
        width = len(str(len(self._tasks) - 1))
        return f"{rank:{width}}: ".encode() if self._options.label else b""

    def _write(self, stream: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._sinks[stream].fd, view) :]

    def _ended(self, end: TaskEnd) -> None:
        for stream in (1, 2):
            if rest := self._unfinished.pop((end.rank, stream), b""):
                self._write(stream, self._label(end.rank) + rest + b"\n" * self._options.label)
        self._left.discard(end.rank)
        if end.code and not (self._ending and end.signal):
            self._code = max(self._code, end.code)
            how = f"ended by signal {end.signal}" if end.signal else f"exited with {end.code}"
            node = self._nodes[next(task.member for task in self._tasks if task.rank == end.rank)]
            _say(f"{node}: task {end.rank}: {end.message or how}")
            if self._options.kill_on_bad_exit:
                self._end_all()

    # Ending

    def _end_all(self) -> None:
        if not self._ending and self._left:
            self._ending = True
            self._kill_at = time.monotonic() + _KILL_WAIT_S
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        self._here.signal(number)
        for member, line in tuple(self._lines.items()):
            try:
                channel.send(line, channel.SIGNAL, str(int(number)).encode())
            except OSError:
                self._lose(member)

    def _watch_signals(self) -> None:
        """Pass SIGINT and SIGTERM on, but not those of the job's supervisor: the tasks get these themselves."""
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)

        def wait() -> None:
            while True:
                info = signal.sigwaitinfo(_PASSED_ON)
                os.write(write_fd, bytes([info.si_signo, _is_supervisor(info.si_pid)]))

        _thread.start_new_thread(wait, ())

        def pass_on() -> None:
            number, by_supervisor = os.read(read_fd, 2)
            if not by_supervisor:
                self._signal(number)

        self._selector.register(read_fd, selectors.EVENT_READ, pass_on)


def _is_supervisor(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read() == _SUPERVISOR
    except OSError:
        return False
