"""Watches supervisors: one thread, one epoll over the zygote, the notice socket and a pidfd for each supervisor."""

import contextlib
import logging
import os
import select
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corral.host.runtimes.process.procfs import LocalProcess
from corral.host.runtimes.process.records.evidence import is_another
from corral.host.runtimes.process.records.launch_records import LaunchRecords
from corral.host.runtimes.process.records.launch_spec import LAUNCH_ID, LaunchError
from corral.host.runtimes.process.supervisor_orders import NEWS
from corral.host.runtimes.process.zygote_link import ZygoteLink

log = logging.getLogger(__name__)

_SOCKET_PATH_LIMIT_BYTES = 107
_NOTICE_BYTES = 256
_NOTICES_AT_ONCE = 256
_RESCAN_S = 0.5
_WAKE_S = 2.0
_RESTART_LIMIT = 5
# The limit is far below the socket's capacity, so that neither side ever waits for the other to read.
_IN_FLIGHT_LIMIT = 64
ANSWER_S = 10.0
"""The time limit of a zygote's answer: normally milliseconds, a new zygote a second or two. A late zygote is
replaced.
"""


class Watcher:
    """Keeps a zygote running and supervisors awake, and reports their starts and ends.

    `on_supervisor(launch_id, ended)` and `on_failed(launch_id, message)` return whether the state of the launch has
    changed. Then `on_news(launch_id)` follows, for all changes of one round at once. They run on the watcher's thread.
    A notice that a job has started may be lost, and there may be no descriptor left to watch a supervisor: these
    launches are looked up on disk every half second.
    """

    def __init__(
        self,
        home: Path,
        *,
        on_supervisor: Callable[[str, bool], bool],
        on_failed: Callable[[str, str], bool],
        on_news: Callable[[str], None],
    ) -> None:
        self.notify_path = str(home / "notify.sock")
        self._launches = str(home / "launches")
        self._errors_path = str(home / "supervisor.log")
        self._on_supervisor = on_supervisor
        self._on_failed = on_failed
        self._on_news = on_news
        self._events: deque[tuple[str, bool]] = deque()
        self._news: dict[str, None] = {}
        self._lock = threading.Lock()
        self._zygote: ZygoteLink | None = None
        self._zygote_failures = 0
        self._queued: deque[str] = deque()
        self._in_flight: dict[str, None] = {}
        self._answer_due_at = 0.0
        self._starting: dict[str, None] = {}
        self._unwatched: dict[str, None] = {}
        self._supervisors: dict[int, str] = {}
        self._pidfds: dict[str, list[int]] = {}
        """The pidfds by launch; nearly always a launch has one supervisor."""
        self._thread: threading.Thread | None = None
        self._closing = False

    def start(self) -> None:
        """Start a zygote and the thread. Raises LaunchError if that is impossible."""
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._notices = self._open_notices()
        for fd in (self._wake, self._notices.fileno()):
            self._epoll.register(fd, select.EPOLLIN)
        with self._lock:
            self._start_zygote()
        self._thread = threading.Thread(target=self._run, name="process-watcher", daemon=True)
        self._thread.start()

    def _open_notices(self) -> socket.socket:
        if len(os.fsencode(self.notify_path)) > _SOCKET_PATH_LIMIT_BYTES:
            raise LaunchError(
                f"{self.notify_path} is {len(os.fsencode(self.notify_path))} bytes long and a socket's path can have "
                f"{_SOCKET_PATH_LIMIT_BYTES}: choose a shorter CORRAL_HOME"
            )
        notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            Path(self.notify_path).unlink(missing_ok=True)
            notices.bind(self.notify_path)
            os.chmod(self.notify_path, 0o600)
        except OSError as error:
            notices.close()
            raise LaunchError(f"cannot listen for supervisors at {self.notify_path}: {error}") from error
        return notices

    def _start_zygote(self) -> None:
        self._zygote = ZygoteLink(self._launches, self._errors_path)
        self._epoll.register(self._zygote.fileno(), select.EPOLLIN)
        self._await_answer()

    def _await_answer(self) -> None:
        self._answer_due_at = time.monotonic() + ANSWER_S

    def close(self) -> None:
        """Stop watching, and end the zygote. The supervisors go on."""
        with self._lock:
            if self._closing or self._thread is None:
                return
            self._closing = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        with self._lock:
            if self._zygote:
                self._zygote.close()
            for fd in self._supervisors:
                os.close(fd)
            self._supervisors.clear()
            self._pidfds.clear()
        self._notices.close()
        Path(self.notify_path).unlink(missing_ok=True)
        self._epoll.close()
        os.close(self._wake)

    def request(self, launch_id: str) -> None:
        """Have the zygote fork a supervisor. A zygote that dies on the way is replaced and asked again."""
        with self._lock:
            if self._closing:
                raise LaunchError("the process runtime is closed")
            if self._zygote is None:
                self._zygote_failures = 0
                self._start_zygote()
            self._starting[launch_id] = None
            self._queued.append(launch_id)
            self._send_queued()

    def _send_queued(self) -> None:
        while self._zygote and self._queued and len(self._in_flight) < _IN_FLIGHT_LIMIT:
            launch_id = self._queued.popleft()
            if not self._in_flight:
                self._await_answer()
            self._in_flight[launch_id] = None
            # The thread notices a dead zygote and repeats all open requests to the next one.
            self._zygote.request(launch_id)

    def watch(self, launch_id: str, supervisor: LocalProcess) -> None:
        """Watch a supervisor that an earlier server, or a zygote that died, has left. Does nothing if it is watched
        already.
        """
        with self._lock:
            if launch_id in self._pidfds:
                return
        try:
            pidfd = _open_process(supervisor)
        except OSError:
            with self._lock:
                self._unwatched[launch_id] = None
            os.eventfd_write(self._wake, 1)
            return
        if pidfd is None:
            self._events.append((launch_id, True))
            os.eventfd_write(self._wake, 1)
            return
        with self._lock:
            self._starting[launch_id] = None
        self._add(pidfd, launch_id)

    def end_process(self, supervisor: LocalProcess) -> None:
        """Have this supervisor end its job, and never another process that got its pid. Raises OSError."""
        _signal_process(supervisor, signal.SIGTERM)

    def tell_process(self, supervisor: LocalProcess) -> None:
        """Signal this supervisor to look for changes, as `end_process`."""
        _signal_process(supervisor, NEWS)

    def watches(self, launch_id: str) -> bool:
        """Return whether a supervisor that was forked for this launch is known to live."""
        with self._lock:
            return launch_id in self._pidfds

    def end_supervisor(self, launch_id: str) -> bool:
        """Tell the launch's supervisor to end its job. Return False if no watched supervisor lives."""
        return self._signal(launch_id, signal.SIGTERM)

    def tell_supervisor(self, launch_id: str) -> bool:
        """Signal the launch's supervisor to look for changes. Return False if no watched supervisor lives."""
        return self._signal(launch_id, NEWS)

    def _signal(self, launch_id: str, signum: signal.Signals) -> bool:
        found = False
        with self._lock:
            for pidfd in self._pidfds.get(launch_id, ()):
                found |= _signal(pidfd, signum)
        return found

    def _add(self, pidfd: int, launch_id: str) -> None:
        with self._lock:
            self._supervisors[pidfd] = launch_id
            self._pidfds.setdefault(launch_id, []).append(pidfd)
            self._epoll.register(pidfd, select.EPOLLIN)

    # The thread

    def _run(self) -> None:
        rescan_at = wake_at = 0.0
        while not self._closing:
            in_doubt = bool(self._starting or self._unwatched or self._in_flight)
            for fd, _ in self._epoll.poll(_RESCAN_S if in_doubt else _WAKE_S):
                self._safely(self._serve, fd)
            if in_doubt and time.monotonic() >= rescan_at:
                self._safely(self._rescan)
                self._safely(self._end_silent_zygote)
                rescan_at = time.monotonic() + _RESCAN_S
            self._take_events()
            if time.monotonic() >= wake_at:
                self._safely(self._wake_stopped)
                wake_at = time.monotonic() + _WAKE_S

    def _safely(self, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except Exception:
            # A failure with one launch must not leave all others unwatched.
            log.exception("the process runtime met an error and goes on")

    def _wake_stopped(self) -> None:
        """Continue all supervisors. A job may have stopped its supervisor, which then neither enforces the time limit
        nor reads the output.
        """
        with self._lock:
            for pidfd in self._supervisors:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGCONT)

    def _serve(self, fd: int) -> None:
        if fd in self._supervisors:
            self._on_end(fd)
        elif fd == self._notices.fileno():
            self._on_notices()
        elif fd == self._wake:
            os.eventfd_read(self._wake)
        else:
            self._on_zygote()

    def _on_end(self, pidfd: int) -> None:
        with self._lock:
            launch_id = self._supervisors.pop(pidfd)
            pidfds = self._pidfds[launch_id]
            pidfds.remove(pidfd)
            if not pidfds:
                del self._pidfds[launch_id]
            self._starting.pop(launch_id, None)
            self._epoll.unregister(pidfd)
        os.close(pidfd)
        self._events.append((launch_id, True))

    def _on_notices(self) -> None:
        # A job that sends without end delays the others only for a moment: the rest is read in the next round.
        with contextlib.suppress(BlockingIOError):
            for _ in range(_NOTICES_AT_ONCE):
                self._on_notice(self._notices.recv(_NOTICE_BYTES))

    def _on_notice(self, notice: bytes) -> None:
        """Handle a supervisor's notice that its job runs. If the server is not root's, any of its jobs may send such a
        notice.
        """
        launch_id = notice.decode(errors="replace")
        if LAUNCH_ID.fullmatch(launch_id):
            self._on_start(launch_id)

    def _on_start(self, launch_id: str) -> None:
        with self._lock:
            asked_for = launch_id in self._starting or launch_id in self._pidfds
            self._starting.pop(launch_id, None)
        # Otherwise an earlier server requested the supervisor, which took its claim after this server had looked for
        # running launches.
        if asked_for or self._watch_holder(launch_id):
            self._events.append((launch_id, False))

    def _watch_holder(self, launch_id: str) -> bool:
        holder = self._holder(launch_id)
        if holder is not None:
            self.watch(launch_id, holder)
        return holder is not None

    def _holder(self, launch_id: str) -> LocalProcess | None:
        claim = self._records(launch_id).claim.read()
        if claim is None or claim.holder is None or is_another(claim.holder, self._launches, launch_id):
            return None
        return claim.holder

    def _rescan(self) -> None:
        with self._lock:
            starting, unwatched = list(self._starting), list(self._unwatched)
        for launch_id in starting:
            if self._records(launch_id).claim.read_started():
                self._on_start(launch_id)
        for launch_id in unwatched:
            if self._is_left(launch_id):
                with self._lock:
                    del self._unwatched[launch_id]
                self._events.append((launch_id, True))

    def _is_left(self, launch_id: str) -> bool:
        """Return whether the claim was taken and its holder does not live."""
        holder = self._holder(launch_id)
        return not (holder and holder.is_alive()) and self._records(launch_id).claim.is_taken()

    def _records(self, launch_id: str) -> LaunchRecords:
        return LaunchRecords(f"{self._launches}/{launch_id}")

    def _on_zygote(self) -> None:
        zygote = self._zygote
        answer = zygote.receive() if zygote else None
        if answer is None:
            self._replace_zygote()
            return
        self._zygote_failures = 0
        with self._lock:
            self._in_flight.pop(answer.launch_id, None)
            self._await_answer()
            self._send_queued()
        if answer.pidfd is not None:
            self._add(answer.pidfd, answer.launch_id)
        elif answer.error:
            self._failed(answer.launch_id, answer.error)
        elif answer.ended:
            self._events.append((answer.launch_id, True))
        else:
            with self._lock:
                self._unwatched[answer.launch_id] = None

    def _end_silent_zygote(self) -> None:
        """Kill a zygote that owes an answer: a job may have stopped it. Then it is replaced like any that died."""
        with self._lock:
            if self._zygote and self._in_flight and time.monotonic() >= self._answer_due_at:
                log.warning("the process that launches jobs has not answered for %g s and is killed", ANSWER_S)
                self._await_answer()
                self._zygote.kill()

    def _replace_zygote(self) -> None:
        """Start another zygote, and repeat the unanswered requests of the last one; the claim keeps each launch
        single.
        """
        with self._lock:
            if self._zygote:
                self._epoll.unregister(self._zygote.fileno())
                self._zygote.close()
                self._zygote = None
            self._zygote_failures += 1
            self._queued.extendleft(reversed(self._in_flight))
            self._in_flight.clear()
            failed: list[str] = []
            outcome = "started another"
            try:
                if self._zygote_failures > _RESTART_LIMIT:
                    raise LaunchError(f"the process that launches jobs died {self._zygote_failures} times in a row")
                self._start_zygote()
                self._send_queued()
            except LaunchError as error:
                outcome = str(error)
                failed.extend(self._queued)
                self._queued.clear()
        log.warning("the process that launches jobs has died; %s", outcome)
        for launch_id in failed:
            self._failed(launch_id, outcome)

    # Reports

    def _failed(self, launch_id: str, message: str) -> None:
        if self._on_failed(launch_id, message):
            self._news[launch_id] = None

    def _take_events(self) -> None:
        """Handle all events, then report all changes at once, so that a receiver is woken once."""
        while self._events:
            self._safely(self._take_event, *self._events.popleft())
        news, self._news = self._news, {}
        for launch_id in news:
            self._safely(self._on_news, launch_id)

    def _take_event(self, launch_id: str, ended: bool) -> None:
        if self._on_supervisor(launch_id, ended):
            self._news[launch_id] = None


def _signal_process(process: LocalProcess, signum: signal.Signals) -> None:
    pidfd = _open_process(process)
    if pidfd is not None:
        try:
            _signal(pidfd, signum)
        finally:
            os.close(pidfd)


def _signal(pidfd: int, signum: signal.Signals) -> bool:
    """Signal a supervisor, and continue it in case its job has stopped it. Return False if it has ended."""
    try:
        signal.pidfd_send_signal(pidfd, signum)
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


def _open_process(process: LocalProcess) -> int | None:
    """Return a pidfd of exactly this process, None if it has ended. Raises OSError if no descriptor is left."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # This is checked after opening: from here on the descriptor cannot refer to another process.
    if process.is_alive():
        return pidfd
    os.close(pidfd)
    return None
