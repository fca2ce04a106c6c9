"""Runs the commands that users request for the end of their jobs: each command once, as its user, a few at a time.

  notifications/ID.json  the command, waiting or running
  notifications/ID.log   its output, until that is in the job's log
  notifications/ID.done  the command was run, and is not run again

Each command runs under a supervisor, as a job does. So it has a time limit, and all its processes end with it. It
outlives this agent, and the next agent finds it. A launch is claimed once, so no command runs twice, even after a
crash.
"""

import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.home import Home
from corral.core.model.jobs.notification import Notification, checked_notification_id
from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process.ending.removal import remove_tree
from corral.host.runtimes.process.output.log_marks import marks_path
from corral.host.runtimes.process.process_launches import LaunchState, ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchError, LaunchSpec
from corral.host.runtimes.process.records.whole_files import (
    Unreadable,
    open_regular,
    read_record,
    sync_directory,
    temporary_beside,
    write_all,
)
from corral.host.runtimes.process.runtime import NO_JOB
from corral.untrusted import Unread, guarded
from corral.wire import from_plain, to_plain

log = logging.getLogger(__name__)

AT_ONCE, AT_ONCE_OF_USER = 8, 2
"""The most notifications that run at the same time: of all users, and of one user."""

WAITING_OF_USER = 8
"""The most notifications of one user that wait in addition to the running ones. Further ones must be requested
again.
"""

OUTPUT_BYTES = 4096
"""The number of bytes that are kept of the end of a command's output."""

KILL_GRACE_S = 5.0
CPU_MILLI, HOST_MEMORY_MIB = 1000, 1024
"""The limits of a command on the host, if a cgroup can enforce them. Its job's resources belong to other jobs
by now.
"""

LOOK_AGAIN_S = 5.0
KEPT_S = 7 * 86400.0
"""The time for which a command is remembered as run, because a killed server may request it again."""

_MOST_BYTES = 64 * 1024 * 1024
_OVER = (LaunchPhase.EXITED, LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST)

Tell = Callable[[str, Sequence[str], tuple[int, int] | None], None]
"""Writes lines into the log of a job, which is made for this owner if it is missing."""


class NotificationRunner:
    """Runs the notifications of one host on a thread of its own. `take` may be called from any thread."""

    def __init__(self, home: Home, tell: Tell, paths: Mapping[str, str]) -> None:
        """`paths` are environment variables that only the node knows."""
        self._home = home
        self._directory = home.notifications
        self._tell = tell
        self._paths = paths
        self._lock = threading.Lock()
        self._waiting: dict[str, Notification] = {}
        self._running: dict[str, Notification] = {}
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
        self._processes: ProcessLaunches | None = None

    def beside(self, on_event: Callable[[str], None]) -> Callable[[str], None]:
        """Return a listener for launches that takes those of notifications, and passes all others on."""

        def heard(launch_id: str) -> None:
            if launch_id.startswith(NO_JOB):
                self._wake.set()
            else:
                on_event(launch_id)

        return heard

    def start(self, processes: ProcessLaunches) -> None:
        """Continue with the requests that an earlier agent left. Raises BackendFailed if their directory cannot be
        used.
        """
        self._processes = processes
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._waiting = self._left()
        except OSError as error:
            raise BackendFailed(f"{self._directory} cannot be read: {error.strerror}") from error
        self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Begin no more commands. Running commands go on."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def take(self, notification: Notification) -> bool:
        """Accept a request as `corral.core.ports.node.HostAccess.notify` does. Raises BackendFailed if it cannot be
        stored.
        """
        name = checked_notification_id(notification.id)
        with self._lock:
            if name in self._waiting or name in self._running or self._path(name, "done").exists():
                return True
            if sum(one.user == notification.user for one in self._waiting.values()) >= WAITING_OF_USER:
                return False
            try:
                self._write(notification)
            except OSError as error:
                raise BackendFailed(f"notification {name} cannot be written down: {error.strerror}") from error
            self._waiting[name] = notification
        self._wake.set()
        return True

    def _path(self, name: str, kind: str) -> Path:
        return self._directory / f"{name}.{kind}"

    def _write(self, notification: Notification) -> None:
        path = str(self._path(notification.id, "json"))
        temporary = temporary_beside(path)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, json.dumps(to_plain(notification, compact=True)).encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
        sync_directory(str(self._directory))

    def _left(self) -> dict[str, Notification]:
        """Return the stored requests whose commands are not known to be over, oldest first. Invalid files are
        removed.
        """
        found: dict[str, Notification] = {}
        others: list[Path] = []
        oldest = time.time() - KEPT_S
        for path in sorted(self._directory.iterdir(), key=_changed_at):
            if path.suffix == ".json":
                one = _taken(path)
                if one is None:
                    log.warning("%s makes no sense and is removed", path)
                    others.append(path)
                else:
                    found[path.stem] = one
            elif path.suffix != ".done" or _changed_at(path) < oldest:
                others.append(path)
        for path in others:
            if path.suffix != ".log" or path.stem not in found:
                _remove(path)
        return found

    def _run(self) -> None:
        self._forget_left_over()
        while not self._closing:
            self._finish_those_over()
            again = self._start_next()
            self._wake.wait(LOOK_AGAIN_S if again or self._running else None)
            self._wake.clear()

    def _forget_left_over(self) -> None:
        """Remove the records of launches that were over when an earlier agent ended, and could not be removed."""
        assert self._processes is not None
        for launch_id in self._processes.list_launches():
            if launch_id.startswith(NO_JOB) and launch_id.removeprefix(NO_JOB) not in self._waiting:
                self._forget(launch_id.removeprefix(NO_JOB))

    def _start_next(self) -> bool:
        """Begin as many commands as may run now. Return whether the start of one failed and must be repeated."""
        assert self._processes is not None
        of_user = Counter(one.user for one in self._running.values())
        failed = False
        for name, one in list(self._waiting.items()):
            if self._closing or len(self._running) >= AT_ONCE:
                break
            if of_user[one.user] >= AT_ONCE_OF_USER:
                continue
            try:
                self._processes.launch(self._launch_spec(one))
            except LaunchError as error:
                log.warning("notification %s cannot be run yet: %s", name, error)
                failed = True
                continue
            except (ValueError, TypeError, OverflowError) as error:
                self._end(one, [f"cannot be run: {error}"])
                continue
            of_user[one.user] += 1
            with self._lock:
                self._running[name] = self._waiting.pop(name)
        return failed

    def _launch_spec(self, one: Notification) -> LaunchSpec:
        log_of_job = self._home.log_of(one.job_id)
        become = os.geteuid() == 0 and one.uid not in (None, 0)
        return LaunchSpec(
            launch_id=NO_JOB + one.id,
            job_id=one.job_id,
            argv=("/bin/sh", "-c", one.command),
            env={**dict(one.env), **self._paths, "CORRAL_LOG": str(log_of_job)},
            workdir=one.workdir,
            log_path=str(self._path(one.id, "log")),
            # A command has no scratch directory. The existing directory "/" is left alone.
            scratch_path="/",
            umask=one.umask,
            uid=one.uid if become else None,
            gid=one.gid if become else None,
            groups=one.groups if become else None,
            time_limit_s=one.time_limit_s,
            kill_grace_s=KILL_GRACE_S,
            # The supervisor keeps the beginning of the output in one half and the end in the other.
            log_max_bytes=2 * OUTPUT_BYTES,
            rlimits={f"RLIMIT_{name}": soft for name, soft in one.rlimits},
            cpu_milli=CPU_MILLI,
            host_memory_mib=HOST_MEMORY_MIB,
        )

    def _finish_those_over(self) -> None:
        assert self._processes is not None
        for name, one in list(self._running.items()):
            try:
                state = self._processes.status(NO_JOB + name)
                if state.phase in _OVER:
                    self._end(one, self._account(one, state))
            except OSError as error:
                log.warning("notification %s cannot be looked at: %s", name, error.strerror)

    def _account(self, one: Notification, state: LaunchState) -> list[str]:
        """Return the lines about a command for its job's log: its output, and how it ended."""
        record = state.exit
        if record is None:
            return [f"it may not have run: {state.message}" if state.message else "it may not have run"]
        if record.reason in ("exec_failed", "launch_failed"):
            return [f"not run: {record.message}"]
        if record.reason == "timed_out":
            how = f"stopped after its {one.time_limit_s:g} s"
        else:
            how = "done" if record.exit_code == 0 else f"failed with exit code {record.exit_code}"
        return [*self._output(one.id), how]

    def _output(self, name: str) -> list[str]:
        """Return the last lines of a command's output."""
        try:
            fd = open_regular(str(self._path(name, "log")), os.O_RDONLY)
        except OSError:
            return []
        try:
            data = os.pread(fd, OUTPUT_BYTES, max(0, os.fstat(fd).st_size - OUTPUT_BYTES))
        finally:
            os.close(fd)
        return data.decode(errors="backslashreplace").splitlines()

    def _end(self, one: Notification, lines: list[str]) -> None:
        """Finish a command: write the lines into its job's log, and store only that it was run."""
        become = os.geteuid() == 0 and one.uid is not None and one.gid is not None
        owner = (one.uid, one.gid) if become and one.uid is not None and one.gid is not None else None
        self._tell(one.job_id, [f"notify: {line}" for line in lines], owner)
        done = self._path(one.id, "done")
        try:
            os.rename(self._path(one.id, "json"), done)
            os.truncate(done, 0)
            os.utime(done)
            self._path(one.id, "log").unlink(missing_ok=True)
            Path(marks_path(str(self._path(one.id, "log")))).unlink(missing_ok=True)
        except OSError as error:
            log.warning("notification %s leaves a file behind: %s", one.id, error.strerror)
        with self._lock:
            self._running.pop(one.id, None)
            self._waiting.pop(one.id, None)
        self._forget(one.id)

    def _forget(self, name: str) -> None:
        assert self._processes is not None
        try:
            self._processes.forget(NO_JOB + name)
        except (LaunchError, OSError) as error:
            log.warning("the record of notification %s is left behind: %s", name, error)


def _taken(path: Path) -> Notification | None:
    """Read a requested notification from a file; None if it is invalid. Raises OSError if the disk fails."""

    def read(data: bytes) -> Notification:
        one = from_plain(Notification, json.loads(data))
        checked_notification_id(f"{one.job_id}-0")
        if checked_notification_id(one.id) != path.stem:
            raise Refused("it is another's", field="id")
        return one

    try:
        data = read_record(str(path), _MOST_BYTES) or b""
    except Unreadable:
        return None
    found = guarded(str(path), partial(read, data))
    return None if isinstance(found, Unread) else found


def _changed_at(path: Path) -> float:
    """Return the time of a file's last change in Unix seconds; 0 if the file is gone."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _remove(path: Path) -> None:
    """Remove a path, even if a job has created it. Errors do not keep an agent from starting."""
    try:
        remove_tree(str(path))
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error.strerror)
