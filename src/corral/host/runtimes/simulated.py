"""Simulated work: nothing is executed. Simulations use it with the real control loop, and so do tests of that loop."""

import threading
from collections.abc import Callable

from corral.clock import Clock
from corral.core.model.errors import Refused
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, Lineage
from corral.core.ports.runtime import Execution, InnerCommand, MainProcesses


class SimulatedRuntime:
    """Launches run until `finish` or `stop` ends them, also across restarts of the server that uses it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: dict[str, LaunchReport] = {}
        self.on_event: Callable[[str], None] = lambda _: None
        self.ran: list[str] = []
        """Job ids in the order in which they began to run; one that ran twice is in it twice."""
        self.time_limits: dict[str, float] = {}
        """Time limits that were set after the start of a launch, by launch id."""

    def launch(self, launch: Launch) -> None:
        """Run the work at once. Does nothing if the launch is known already."""
        with self._lock:
            if launch.id in self._reports:
                return
            self.ran.append(launch.job.id)
            self._reports[launch.id] = LaunchReport(launch.id, LaunchPhase.RUNNING, started_at=self._clock.now())
        self.on_event(launch.id)

    def finish(self, launch_id: str, exit_code: int = 0) -> None:
        """End the work by itself with this exit code. Does nothing if it has ended already."""
        self._end(launch_id, Phase.SUCCEEDED if exit_code == 0 else Phase.FAILED, exit_code)

    def stop(self, launch_id: str) -> None:
        """End the work as if by SIGTERM."""
        self._end(launch_id, Phase.CANCELLED, 143)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """End the work if it has run longer than this limit. Otherwise the limit is only recorded, and never enforced
        later.
        """
        report = self.report(launch_id)
        if report.started_at is not None and self._clock.now() - report.started_at >= time_limit_s:
            self._end(launch_id, Phase.TIMED_OUT, 143)
        self.time_limits[launch_id] = time_limit_s

    def die(self, launch_id: str) -> None:
        """Let the work disappear without a report of how it ended."""
        with self._lock:
            self._reports[launch_id] = LaunchReport(launch_id, LaunchPhase.DEAD)
        self.on_event(launch_id)

    def _end(self, launch_id: str, ending: Phase, exit_code: int) -> None:
        with self._lock:
            before = self._reports.get(launch_id)
            if before is None or before.phase is not LaunchPhase.RUNNING:
                return
            self._reports[launch_id] = LaunchReport(
                launch_id,
                LaunchPhase.EXITED,
                started_at=before.started_at,
                ended_at=self._clock.now(),
                exit_code=exit_code,
                signal=15 if ending is Phase.CANCELLED else None,
                ending=ending,
            )
        self.on_event(launch_id)

    def report(self, launch_id: str) -> LaunchReport:
        """Return the report of the launch: running, ended, or unknown."""
        with self._lock:
            return self._reports.get(launch_id, LaunchReport(launch_id, LaunchPhase.UNKNOWN))

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Make sure that this launch never runs. Return False if it runs or ran."""
        phase = LaunchPhase.DEAD if ran else LaunchPhase.DECLARED_LOST
        with self._lock:
            known = self._reports.setdefault(launch_id, LaunchReport(launch_id, phase))
            return known.phase is LaunchPhase.DECLARED_LOST

    def launches(self) -> tuple[str, ...]:
        """Return the ids of the launches that were not forgotten."""
        with self._lock:
            return tuple(sorted(self._reports))

    def forget(self, launch_id: str) -> None:
        """Remove the record of an ended launch. A launch that runs keeps its record."""
        with self._lock:
            report = self._reports.get(launch_id)
            if report is not None and report.phase not in (LaunchPhase.CLAIMED, LaunchPhase.RUNNING):
                del self._reports[launch_id]

    def lose_record(self, launch_id: str) -> None:
        """Lose the record of a launch, although it may run: a disk was damaged."""
        with self._lock:
            del self._reports[launch_id]

    def pids(self, launch_id: str) -> frozenset[int]:
        """Return no pids, because nothing is executed."""
        return frozenset()

    def main_processes(self, launch_id: str) -> MainProcesses:
        """Return no processes, because nothing is executed."""
        return MainProcesses()

    def lineage(self, launch_id: str) -> Lineage:
        """Return an empty lineage, because nothing is executed."""
        return Lineage()

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        raise Refused("work that only seems to run takes no command")

    def close(self) -> None:
        """Do nothing: the runtime holds nothing open."""
