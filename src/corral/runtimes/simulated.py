"""Work that only seems to run: for simulations through the real control loop, and for tests of it."""

import threading
from collections.abc import Callable

from corral.clock import Clock
from corral.model.job import Phase
from corral.model.launch import Launch, LaunchPhase, LaunchReport, Lineage


class SimulatedRuntime:
    """Launches run until `finish` or `stop` ends them, whatever becomes of the server on top of it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: dict[str, LaunchReport] = {}
        self.on_event: Callable[[str], None] = lambda _: None
        self.ran: list[str] = []
        """Job ids in the order in which they began to run; one that ran twice is in it twice."""

    def launch(self, launch: Launch) -> None:
        """The work runs at once, unless the allocation is known already."""
        with self._lock:
            if launch.allocation_id in self._reports:
                return
            self.ran.append(launch.job.id)
            self._reports[launch.allocation_id] = LaunchReport(
                launch.allocation_id, LaunchPhase.RUNNING, started_at=self._clock.now()
            )
        self.on_event(launch.allocation_id)

    def finish(self, allocation_id: str, exit_code: int = 0) -> None:
        """The work ends by itself; nothing when it has ended already."""
        self._end(allocation_id, Phase.SUCCEEDED if exit_code == 0 else Phase.FAILED, exit_code)

    def stop(self, allocation_id: str) -> None:
        """The work ends on SIGTERM."""
        self._end(allocation_id, Phase.CANCELLED, 143)

    def die(self, allocation_id: str) -> None:
        """The work is gone, and nobody can say how it ended."""
        with self._lock:
            self._reports[allocation_id] = LaunchReport(allocation_id, LaunchPhase.DEAD)
        self.on_event(allocation_id)

    def _end(self, allocation_id: str, ending: Phase, exit_code: int) -> None:
        with self._lock:
            before = self._reports.get(allocation_id)
            if before is None or before.phase is not LaunchPhase.RUNNING:
                return
            self._reports[allocation_id] = LaunchReport(
                allocation_id,
                LaunchPhase.EXITED,
                started_at=before.started_at,
                ended_at=self._clock.now(),
                exit_code=exit_code,
                signal=15 if ending is Phase.CANCELLED else None,
                ending=ending,
            )
        self.on_event(allocation_id)

    def report(self, allocation_id: str) -> LaunchReport:
        """Running, ended, or unknown."""
        with self._lock:
            return self._reports.get(allocation_id, LaunchReport(allocation_id, LaunchPhase.UNKNOWN))

    def declare_lost(self, allocation_id: str, *, ran: bool = False) -> bool:
        """See to it that this launch never runs. False when it runs or ran."""
        phase = LaunchPhase.DEAD if ran else LaunchPhase.DECLARED_LOST
        with self._lock:
            known = self._reports.setdefault(allocation_id, LaunchReport(allocation_id, phase))
            return known.phase is LaunchPhase.DECLARED_LOST

    def launches(self) -> tuple[str, ...]:
        """Launches not forgotten."""
        with self._lock:
            return tuple(sorted(self._reports))

    def forget(self, allocation_id: str) -> None:
        """Drop a launch that ended."""
        with self._lock:
            self._reports.pop(allocation_id, None)

    def pids(self, allocation_id: str) -> frozenset[int]:
        """Nothing really runs."""
        return frozenset()

    def lineage(self, allocation_id: str) -> Lineage:
        """Nothing really runs."""
        return Lineage()

    def close(self) -> None:
        """Nothing to let go of."""
