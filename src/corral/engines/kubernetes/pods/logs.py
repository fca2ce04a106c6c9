"""Logs of pods, copied to the server's own when a log is read, and once more before a pod goes.

Kubernetes reads a log from a time on, not from a byte, and drops it with its pod. So the time of the last copied line
is stored beside the copy. Only logs of pods that are being deleted are followed by a thread: the kubelet of such a pod
removes the log with the container.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from corral.core.model.errors import BackendFailed, CorralError
from corral.core.model.home import log_name
from corral.core.model.runs.launch import Launch, job_of, log_mark, member_of
from corral.core.ports.node import LogChunk
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.connection import ResponseStream
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.pods.manifest import CONTAINER
from corral.engines.kubernetes.pods.own_pods import OwnPods
from corral.engines.kubernetes.pods.stamped_lines import LogPosition, new_lines
from corral.engines.kubernetes.pods.state import LaunchedPod
from corral.host.node.files.job_logs import JobLogs
from corral.untrusted import Unread, guarded

_CLOSE_S = 1.0

_Opened = Callable[[ResponseStream], None]


class _LogFollower:
    """Follows one log, once. It stops if the API server breaks off the stream."""

    def __init__(self, follow: Callable[[_Opened], None]) -> None:
        """`follow(opened)` reads to the end of the log. It calls `opened` with the stream as soon as it is open."""
        self._follow = follow
        self._stream: ResponseStream | None = None
        self._begun = threading.Event()
        self._over = threading.Event()
        self._finishing = False
        self.saw_the_end = False
        self._thread = threading.Thread(target=self._run, name="log-follower", daemon=True)

    @property
    def active(self) -> bool:
        """Whether the log may still be read."""
        return not self._over.is_set()

    def begin(self, wait_s: float) -> None:
        """Start to follow, and wait at most `wait_s` for the log's existing text."""
        self._thread.start()
        self._begun.wait(wait_s)

    def finish(self, wait_s: float) -> None:
        """Wait at most `wait_s` seconds for the end of the log, then stop."""
        if self._over.wait(wait_s):
            return
        self._finishing = True
        if self._stream is not None:
            self._stream.close()
        self._over.wait(_CLOSE_S)

    def _run(self) -> None:
        try:
            with suppress(CorralError, OSError):
                self._follow(self._opened)
                self.saw_the_end = not self._finishing
        finally:
            self._over.set()
            self._begun.set()

    def _opened(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._begun.set()
        if self._finishing:
            stream.close()


LOOK_S = 0.5
"""The shortest time between two requests for one log."""
TIMEOUT_S = 10.0
MARGIN_S = 10
"""Each request begins this many seconds before the last look."""
PIECE_BYTES = 256 * 1024
LAST_S = 5.0
"""The time for which the last lines of an ended container may arrive."""
MOST_FOLLOWED = 64
"""The most logs followed at a time. Last lines of further pods deleted then may be lost."""


class PodLogs:
    """The logs of one server's jobs. Safe from any thread; readers of different logs do not wait for each other."""

    def __init__(
        self,
        cluster: Cluster,
        pods: OwnPods,
        namespace: str,
        directory: Path,
        now: Callable[[], float],
        *,
        max_bytes: int,
    ) -> None:
        """`now` returns the server's time (Unix seconds)."""
        self._cluster = cluster
        self._pods = pods
        self._namespace = namespace
        self._directory = directory
        self._logs = JobLogs(directory, now)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._copies: dict[str, _Copy] = {}
        self._may_follow = threading.BoundedSemaphore(MOST_FOLLOWED)

    def own(self, launch: Launch) -> None:
        """Make sure that the launch's log belongs to its job, before its pod is made. Raises BackendFailed."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._position_file(launch.id).unlink(missing_ok=True)
        except OSError as error:
            raise BackendFailed(f"cannot write {self._directory}: {error.strerror}") from None
        self._logs.own(launch.job.id, launch.rank, log_mark(launch.job))

    def begin(self, launch: Launch) -> None:
        """Write the lines for the head of the log."""
        if launch.notes:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._logs.tell(launch.job.id, launch.notes, None, rank=launch.rank)

    def read(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        """Return a piece of a member's log, up to the newest text of its pod. Raises BackendFailed, Refused."""
        pod = self._pods.newest(job_id, rank)
        if pod is not None:
            # Text that was copied before is readable even if the pod's node does not answer.
            with suppress(CorralError):
                self.catch_up(pod)
        return self._logs.read(job_id, rank, offset, max_bytes, mark)

    def written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        """Return the same as `corral.host.node.files.job_logs.JobLogs.written_since`, for text read from pods."""
        return self._logs.written_since(job_id, rank, ago_s, mark)

    def note(self, job_id: str, rank: int, line: str) -> None:
        """Write a line of Corral's own into the log."""
        self._logs.note(job_id, rank, line)

    def follow(self, pod: LaunchedPod, grace_s: float, *, wait_s: float = 0.0) -> None:
        """Copy the log of a pod continuously during the `grace_s` seconds of its deletion, which begins now at the
        latest.

        Returns once that has begun, or `wait_s` later.
        """
        copy = self._copy_of(pod)
        if copy is None or copy.complete:
            return
        with self._lock:
            if copy.follower is not None or not self._may_follow.acquire(blocking=False):
                return
            copy.follower = _LogFollower(lambda opened: self._follow(pod, copy, opened, grace_s + TIMEOUT_S))
        copy.follower.begin(wait_s)

    def finish(self, pod: LaunchedPod, *, last_try: bool = True) -> bool:
        """Read the rest of the log of a pod that is about to go. Return whether that is done.

        If the last try fails, the log says so and the work counts as done. Nothing more is read afterwards. The
        position is kept until `forget`, because the pod may stay for a while.
        """
        copy = self._copy_of(pod)
        if copy is None:
            return True
        if copy.follower is not None:
            copy.follower.finish(LAST_S if pod.over else 0.0)
        try:
            self.catch_up(pod, at_once=True)
        except CorralError as error:
            if copy.follower is None or not copy.follower.saw_the_end:
                if not last_try:
                    return False
                self._tell_loss(pod, error)
        copy.complete = True
        return True

    def close(self) -> None:
        """Stop following logs."""
        with self._lock:
            followers = [copy.follower for copy in self._copies.values() if copy.follower is not None]
        for one in followers:
            one.finish(0.0)

    def forget(self, launch_id: str) -> None:
        """Forget the log of a launch whose pod was released."""
        with self._lock:
            self._copies.pop(launch_id, None)
        with suppress(OSError):
            self._position_file(launch_id).unlink(missing_ok=True)

    def catch_up(self, pod: LaunchedPod, *, at_once: bool = False) -> None:
        """Copy the text that the pod has written since the last look. Raises CorralError."""
        copy = self._copy_of(pod)
        if copy is None:
            return
        if copy.follower is not None and copy.follower.active:
            if not pod.over:
                return
            copy.follower.finish(LAST_S)
        with copy.lock:
            now = time.monotonic()
            recent = copy.looked_at is not None and now - copy.looked_at < LOOK_S and not at_once
            if not (recent or copy.complete or copy.written >= self._max_bytes):
                self._copy(pod, copy, now)

    def _copy_of(self, pod: LaunchedPod) -> "_Copy | None":
        """Return the copy of the pod's log. None if the pod has no log, or if the log was read to its end before."""
        if pod.tombstone or not pod.has_run:
            return None
        with self._lock:
            copy = self._copies.get(pod.launch_id)
            if copy is None:
                # Look again: the pod may have been released meanwhile. A pod that is not held was read to its end
                # before.
                known = self._pods.get(pod.launch_id)
                if known is None or not known.held:
                    return None
                copy = self._copies[pod.launch_id] = _Copy(*self._position_of(pod.launch_id))
        return copy

    def _tell_loss(self, pod: LaunchedPod, error: CorralError) -> None:
        job_id, rank = job_of(pod.launch_id), member_of(pod.launch_id)[1]
        with suppress(CorralError):
            # A note is written only if the log exists, and the pod may not have written anything yet.
            self._write(job_id, rank, b"")
        self.note(job_id, rank, f"the rest of the log is lost: {error}")

    def _copy(self, pod: LaunchedPod, copy: "_Copy", now: float) -> None:
        whole = pod.over
        try:
            stream = self._open(pod, copy, now, silence_s=TIMEOUT_S)
        except NoSuchObject:
            return
        with closing(stream):
            self._append(pod.launch_id, copy, new_lines(stream.blocks(), copy.position, whole=whole))
        copy.looked_at, copy.complete = now, whole

    def _follow(self, pod: LaunchedPod, copy: "_Copy", opened: _Opened, silence_s: float) -> None:
        try:
            with copy.lock:
                stream = self._open(pod, copy, time.monotonic(), silence_s=silence_s, follow=True)
                opened(stream)
                lines = new_lines(stream.blocks(), copy.position, whole=True)
                self._append(pod.launch_id, copy, lines, as_they_come=True)
        finally:
            self._may_follow.release()

    def _open(
        self, pod: LaunchedPod, copy: "_Copy", now: float, *, silence_s: float, follow: bool = False
    ) -> ResponseStream:
        since_s = None if copy.looked_at is None else math.ceil(now - copy.looked_at) + MARGIN_S
        return self._cluster.read_log(
            pod.name,
            self._namespace,
            container=CONTAINER,
            follow=follow,
            timestamps=True,
            since_s=since_s,
            silence_s=silence_s,
            timeout_s=TIMEOUT_S,
        )

    def _append(
        self, launch_id: str, copy: "_Copy", lines: Iterable[tuple[bytes, LogPosition]], *, as_they_come: bool = False
    ) -> None:
        job_id, rank = job_of(launch_id), member_of(launch_id)[1]
        piece, position = bytearray(), copy.position
        for line, position in lines:
            piece += line[: self._max_bytes - copy.written - len(piece)]
            full = copy.written + len(piece) >= self._max_bytes
            if as_they_come or full or len(piece) >= PIECE_BYTES:
                self._keep(launch_id, copy, bytes(piece), position)
                piece.clear()
            if full:
                self.note(
                    job_id, rank, f"the log has reached its limit of {self._max_bytes >> 20} MiB; the rest is lost"
                )
                return
        if piece:
            self._keep(launch_id, copy, bytes(piece), position)

    def _keep(self, launch_id: str, copy: "_Copy", piece: bytes, position: LogPosition) -> None:
        self._write(job_of(launch_id), member_of(launch_id)[1], piece)
        copy.position, copy.written = position, copy.written + len(piece)
        kept = {"stamp": position.stamp, "lines": position.lines, "written": copy.written}
        self._write_position(self._position_file(launch_id), json.dumps(kept))

    def _write(self, job_id: str, rank: int, piece: bytes) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._logs.append(job_id, rank, piece)

    @staticmethod
    def _write_position(file: Path, text: str) -> None:
        new = file.with_suffix(".new")
        try:
            new.write_text(text)
            new.replace(file)
        except OSError as error:
            raise BackendFailed(f"cannot write {new}: {error.strerror}") from None

    def _position_file(self, launch_id: str) -> Path:
        return self._directory / f"{log_name(job_of(launch_id), member_of(launch_id)[1])}.{launch_id}.position"

    def _position_of(self, launch_id: str) -> tuple[LogPosition, int]:
        """Return how far an earlier server had read the log; its beginning if that is unknown."""
        file = self._position_file(launch_id)
        try:
            kept = file.read_bytes()
        except OSError:
            return LogPosition(), 0
        found = guarded(str(file), partial(_position_in, kept))
        return (LogPosition(), 0) if isinstance(found, Unread) else found


def _position_in(kept: bytes) -> tuple[LogPosition, int]:
    said = json.loads(kept)
    return LogPosition(str(said["stamp"]), int(said["lines"])), int(said["written"])


class _Copy:
    """The copy of one pod's log, and its position."""

    def __init__(self, position: LogPosition, written: int) -> None:
        self.lock = threading.Lock()
        self.position = position
        self.written = written
        self.looked_at: float | None = None
        self.complete = False
        self.follower: _LogFollower | None = None
