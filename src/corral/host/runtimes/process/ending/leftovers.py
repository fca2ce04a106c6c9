"""Kills processes of a job whose supervisor died before the job ended."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from corral.host.runtimes.process.cgroups import cgroup
from corral.host.runtimes.process.cgroups.job_cgroups import JobCgroups
from corral.host.runtimes.process.ending.killing import Left, kill_orphans
from corral.host.runtimes.process.procfs import LocalProcess
from corral.host.runtimes.process.records.verification import LaunchVerifier

log = logging.getLogger(__name__)

_RETRY_S = 0.02
_RETRY_LIMIT_S = 1.0


class LeftoverKiller:
    """Kills the orphans of launches, on a thread for each. Safe from any thread.

    If a supervisor lives after all, `end_supervisor(launch_id)` asks it to end its job and returns True.
    `on_gone(launch_id)` is called once nothing of a launch is left.
    """

    def __init__(
        self,
        verifier: LaunchVerifier,
        cgroups: JobCgroups,
        end_supervisor: Callable[[str], bool],
        on_gone: Callable[[str], None],
    ) -> None:
        self._verifier = verifier
        self._cgroups = cgroups
        self._end_supervisor = end_supervisor
        self._on_gone = on_gone
        self._lock = threading.Lock()
        self._held_off: set[str] = set()
        self._killing: set[str] = set()
        self._gone: set[str] = set()
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop. The next server kills the remaining processes."""
        self._closed.set()

    def kill(self, launch_id: str) -> bool:
        """Start to kill the processes that a dead supervisor left. Return True until none is left: call it again to
        find out.
        """
        with self._lock:
            if launch_id in self._gone:
                return False
            if launch_id in self._killing or launch_id in self._held_off:
                return True
            self._killing.add(launch_id)
        name = f"leftovers-{launch_id}"
        threading.Thread(target=self._run, args=(launch_id,), name=name, daemon=True).start()
        return True

    @contextlib.contextmanager
    def held_off(self, launch_id: str) -> Iterator[None]:
        """A context in which `kill` does not start for this launch, for example while it is decided whether the launch
        ever ran.
        """
        with self._lock:
            self._held_off.add(launch_id)
        try:
            yield
        finally:
            with self._lock:
                self._held_off.discard(launch_id)

    def forget(self, launch_id: str) -> None:
        """Forget a launch whose record is removed."""
        with self._lock:
            self._gone.discard(launch_id)

    def _run(self, launch_id: str) -> None:
        pause_s = _RETRY_S
        left = self._verifier.processes_left(launch_id)
        dying: dict[LocalProcess, None] = {}
        while not self._is_gone(launch_id, left, dying):
            if self._closed.wait(pause_s):
                return
            pause_s = min(pause_s * 2, _RETRY_LIMIT_S)
        with self._lock:
            self._killing.discard(launch_id)
            self._gone.add(launch_id)
        if not self._closed.is_set():
            self._on_gone(launch_id)

    def _is_gone(self, launch_id: str, left: Left, dying: dict[LocalProcess, None]) -> bool:
        """Kill all processes of the launch. Return True if none is left and its cgroups are removed.

        If the processes cannot be searched for now, for example without free descriptors, they may still exist.
        """
        try:
            if (
                self._verifier.kill_supervisors(launch_id)
                or kill_orphans(left, dying)
                or self._end_supervisor(launch_id)
            ):
                return False
        except OSError as error:
            log.warning("the remains of launch %s cannot be found; the search is repeated: %s", launch_id, error)
            return False
        if left.cgroup:
            cgroup.remove(left.cgroup)
        self._cgroups.remove(launch_id)
        return True
