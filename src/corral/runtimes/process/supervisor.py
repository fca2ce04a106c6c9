"""One job's supervisor: claims the launch, runs the program, moves its output, ends it, records how it ended.

It is forked from the zygote and belongs to no server: it goes on when the server dies, and enforces the time limit and
the log limit by itself. It is a single thread around one poll.
"""

import ctypes
import errno
import functools
import os
import select
import signal
import socket
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from . import cgroup, numa
from .claim import MESSAGE_LIMIT, Claim, Started
from .escalation import KILL_RETRY_S, Escalation, uptime_s
from .joblog import JobLog
from .keeper import run_waiting_command
from .launch_records import Exit, LaunchRecords
from .output_disks import full_disk
from .procfs import LocalProcess
from .start_program import StartFailed, start
from .streams import Streams
from .supervisor_orders import NEWS, Command, Orders

NAME = b"corral-job"
"""What every supervisor calls itself."""

_PR_SET_CHILD_SUBREAPER = 36

_NOTIFY_TIMEOUT_S = 0.05
_DISK_RETRY_S = 1.0
_DISK_TROUBLES = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
)
# A pipe holds at most 1 MiB unless root says more, and a portion is a page at least.
_LAST_PORTIONS = 256
_WAKE_BYTES = 65536

# Plain numbers: an enumeration's members cost memory when they are compared or passed.
_STOP_SIGNALS = (int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGHUP))
_NEWS = int(NEWS)

# Looked up once, in the zygote, for the same reason.
_prctl = ctypes.CDLL(None).prctl


def name_process(name: bytes) -> None:
    """What ps shows as the command name of this process; at most 15 bytes."""
    fd = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, name)
    os.close(fd)


@functools.cache
def _notice_socket() -> socket.socket:
    """One for all supervisors, made in the zygote: each says in every notice where it goes."""
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.settimeout(_NOTIFY_TIMEOUT_S)
    return sender


def _become_subreaper() -> None:
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("the kernel does not let a supervisor adopt the orphans of its job (PR_SET_CHILD_SUBREAPER)")


def supervise(directory: str) -> NoReturn:
    """Run the launch described in `directory` to its end, in a process of its own.

    Signals have handlers that do nothing, set in the zygote: each only wakes the loop, through a pipe.
    """
    try:
        os.setsid()
        name_process(NAME)
        run_launch(LaunchRecords(directory))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def run_launch(records: LaunchRecords) -> None:
    """Claim the launch, run its job, record its exit; nothing when another has claimed it."""
    # Before the claim, because a stop comes as a signal to whoever holds the claim.
    wake, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    # By it the server knows whose supervisor this is, whatever the job does to its record.
    held = os.open(records.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        orders, command = records.read_spec()
        if records.claim.take(Claim(time.time(), LocalProcess.of(os.getpid()))):
            _supervise_claimed(Supervision(records, orders, wake), command)
    finally:
        signal.set_wakeup_fd(-1)
        os.close(held)
        os.close(wake)
        os.close(wake_writer)


def _supervise_claimed(job: "Supervision", command: Command) -> None:
    try:
        job.begin(command)
        job.watch()
    except NotStarted as error:
        job.record(error.exit_code, None, error.reason, error.message)
    except BaseException as error:
        # Whatever broke here, the devices go to others next: nothing of the job may be left.
        traceback.print_exc()
        job.kill_all()
        job.record(None, None, "supervisor_failed", f"the supervisor failed: {error!r}")


def _sooner(first_ms: float | None, second_ms: float | None) -> float | None:
    return first_ms if second_ms is None else second_ms if first_ms is None else min(first_ms, second_ms)


class NotStarted(Exception):
    """No process of the job was executed; what its exit record will say."""

    def __init__(self, exit_code: int | None, reason: str, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.reason = reason
        self.message = message


class Supervision:
    """The job from its claim to its exit record."""

    __slots__ = (
        "_began_at",
        "_children_left",
        "_escalation",
        "_log",
        "_main_pid",
        "_main_status",
        "_orders",
        "_output_files",
        "_records",
        "_started_at",
        "_streams",
        "_wake",
    )  # fmt: skip

    def __init__(self, records: LaunchRecords, orders: Orders, wake: int) -> None:
        self._records = records
        self._orders = orders
        self._wake = wake
        self._escalation = Escalation(orders, self._note)
        self._began_at = uptime_s()
        self._started_at: float | None = None
        self._output_files: Command | None = None
        self._main_pid = 0
        self._main_status: int | None = None
        self._children_left = True

    # Beginning

    def begin(self, command: Command) -> None:
        """Execute the program. Raises NotStarted when something is in the way."""
        _become_subreaper()
        orders = self._orders
        try:
            self._records.list_as_claimed()
            self._records.reserve_exit()
            self._make_scratch()
            self._streams = Streams(orders, self._records.directory)
        except OSError as error:
            raise NotStarted(None, "launch_failed", f"cannot prepare the job: {error}") from error
        self._log = JobLog(
            orders.log_path,
            (orders.uid, orders.gid),
            orders.log_max_bytes,
            orders.boot_at,
            of_terminal=orders.terminal is not None,
            job=orders.log_of,
        )
        for line in orders.notes:
            self._log.note(line)
        stop_reason = self._records.stop_reason()
        if stop_reason is not None:
            raise NotStarted(None, stop_reason, "stopped before it began")
        self._bind_to_numa_nodes()
        try:
            self._main_pid = start(command, self._streams, orders.cgroup, orders.limits)
        except StartFailed as error:
            if error.message not in orders.notes:
                self._log.note(error.message)
            reason = "launch_failed" if error.exit_code is None else "exec_failed"
            raise NotStarted(error.exit_code, reason, error.message) from error
        self._streams.started()
        if command.output is not None or command.error is not None:
            # Its arguments and environment may be large, and there may be thousands of supervisors.
            self._output_files = command._replace(argv=[], env={})
        self._on_started()

    def _bind_to_numa_nodes(self) -> None:
        """Bind this process, which the job inherits; a job that cannot be bound runs all the same."""
        nodes, cpus = self._orders.numa_nodes, self._orders.numa_cpus
        why_not = numa.bind(nodes, cpus) if nodes and cpus else None
        if nodes and why_not is not None:
            names = ", ".join(map(str, nodes))
            self._log.note(
                f"warning: the job is not bound to NUMA node {names}, which is nearest to its GPUs: {why_not}"
            )

    def _on_started(self) -> None:
        self._began_at = uptime_s()
        self._started_at = self._moment(self._began_at)
        self._escalation.started(self._began_at, self._main_pid)
        self._take_time_limit()
        # On a full disk the exit record alone will have the start time.
        with suppress(OSError):
            self._records.claim.write_started(Started(LocalProcess.of(self._main_pid), self._started_at))
        self._notify()

    def _take_time_limit(self) -> None:
        """Keep the time limit that the launch was given since, if it was."""
        with suppress(OSError):
            limit_s = self._records.new_time_limit_s()
            if limit_s is not None:
                self._escalation.limit_to(self._began_at, limit_s)

    def _moment(self, uptime_s: float) -> float:
        """A moment since the boot in the server's seconds."""
        boot_at = self._orders.boot_at
        return time.time() if boot_at is None else boot_at + uptime_s

    def _make_scratch(self) -> None:
        orders = self._orders
        try:
            os.mkdir(orders.scratch_path, mode=0o700)
        except FileExistsError:
            return
        if (orders.uid, orders.gid) != (-1, -1):
            os.chown(orders.scratch_path, orders.uid, orders.gid)

    # The loop

    def watch(self) -> None:
        """Supervise the job until none of its processes is left, then record the end."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        poll.register(self._streams.output, select.POLLIN)
        questions = self._streams.input
        if questions is not None:
            poll.register(questions, select.POLLIN)
        while not self._is_over():
            ready = poll.poll(_sooner(self._escalation.wait_ms(), self._log.rest_ms()))
            for fd, _ in ready:
                if fd == self._wake:
                    self._on_signals(os.read(fd, _WAKE_BYTES))
                elif questions is not None and fd == questions.fileno():
                    questions.answer()
                elif not self._log.drain(fd):
                    poll.unregister(fd)
            if not ready:
                self._log.rest()
            self._reap()
            if not self._is_over():
                self._escalation.go_on(main_ended=self._main_status is not None)
        self._finish()

    def _on_signals(self, signums: bytes) -> None:
        if _NEWS in signums:
            self._take_time_limit()
            if self._main_status is None and self._escalation.stop_reason is None:
                run_waiting_command(self._records)
        if self._main_status is None and any(signum in _STOP_SIGNALS for signum in signums):
            self._escalation.stop(self._records.stop_reason() or "cancelled")

    def _notify(self) -> None:
        """Notify the server, if there is one. The files count; the notice only saves a wait."""
        if not self._orders.notify_path:
            return
        try:
            _notice_socket().sendto(self._orders.launch_id.encode(), self._orders.notify_path)
        except OSError:
            return

    def _note(self, line: str) -> None:
        self._log.note(line)

    def _reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._main_pid:
                    self._main_status = status
        except ChildProcessError:
            self._children_left = False

    # The end

    def _is_over(self) -> bool:
        return not self._children_left and self._main_status is not None

    def kill_all(self) -> None:
        """Kill everything and wait for it, whatever state the loop was left in."""
        while self._children_left:
            self._escalation.kill()
            self._reap()
            time.sleep(KILL_RETRY_S)

    def _finish(self) -> None:
        # The job is gone, so what is in the pipe now is its all; but its user may have opened the pipe from elsewhere.
        output = self._streams.output
        for _ in range(_LAST_PORTIONS):
            if not (select.select([output], [], [], 0)[0] and self._log.drain(output)):
                break
        self._streams.close()
        killed = self._killed_for_memory()
        self._log.close(killed)
        status = self._main_status or 0
        signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = 128 + signum if signum else os.WEXITSTATUS(status)
        messages = [killed] if killed and code else []
        if code and self._output_files is not None and (full := full_disk(self._output_files)):
            messages.append(f"the disk of its output {full} is full")
        if self._log.error:
            messages.append(f"{self._log.error}; {self._log.dropped_bytes} bytes of output were dropped")
        self.record(code, signum, self._escalation.stop_reason, "; ".join(messages))

    def _killed_for_memory(self) -> str:
        for path in self._orders.limits:
            kills, limit_mib = cgroup.kills_for_memory(path)
            if kills:
                whom = "a process" if kills == 1 else f"{kills} processes"
                return f"the kernel killed {whom} of it for memory: the job may have {limit_mib} MiB (--host-memory)"
        return ""

    def record(self, code: int | None, signum: int | None, reason: str | None, message: str) -> None:
        """Write the exit record; waits for room on the disk as long as it takes, for nobody else knows how it ended."""
        ended_at = self._moment(uptime_s())
        if self._started_at is not None:
            ended_at = self._started_at + uptime_s() - self._began_at
        if self._orders.cgroup:
            cgroup.remove(self._orders.cgroup)
        for path in self._orders.limits:
            cgroup.remove(path)
        exit_ = Exit(code, signum, reason, message[:MESSAGE_LIMIT], self._started_at, ended_at)
        while True:
            try:
                self._records.write_exit(exit_)
                return
            except OSError as error:
                if error.errno not in _DISK_TROUBLES:
                    # The record was removed, or something else put in its place: the server will say so.
                    return
                time.sleep(_DISK_RETRY_S)
