"""The launches of this host: started once their devices are ready, stopped, reported, forgotten."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from functools import partial

from corral.core.model.errors import BackendFailed, Conflict, CorralError, Refused
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.runs.launch import (
    Launch,
    LaunchPhase,
    LaunchReport,
    Origin,
    failed_launch,
    job_of,
    with_time_limit,
)
from corral.core.ports.runtime import Execution, InnerCommand, Runtime
from corral.host.runtimes.process.ending.killing import signal_listed
from corral.host.runtimes.process.procfs import catches

log = logging.getLogger(__name__)

DEFAULT_RUNTIME = "process"
"""The runtime that has records on disk. A launch that is unknown here counts as one of its launches."""

MakeReady = Callable[[Launch, Callable[[CorralError | None], None]], None]
"""Makes the devices of a launch ready, then calls the function: with the failure, or None."""

Complete = Callable[[Launch], Launch]
"""Records a launch's resources and adds the values that only its node knows. Raises BackendFailed, Refused."""


class HeardLaunches:
    """Launches for which a runtime has reported an event. Each had a record at that time, and may have lost it
    since.
    """

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._launch_ids: set[str] = set()

    def add(self, launch_id: str) -> None:
        """Record an event of a runtime about this launch."""
        self._launch_ids.add(launch_id)
        self._on_change(launch_id)

    def discard(self, launch_id: str) -> None:
        """Remove a launch that is over."""
        self._launch_ids.discard(launch_id)

    def __contains__(self, launch_id: str) -> bool:
        return launch_id in self._launch_ids


class NodeLaunches:
    """The launches of one host, by the names of their runtimes. Safe from any thread.

    `on_change(launch_id)` is called when the report of a launch may have changed. A launch that cannot be started is
    declared lost, and its report says why.
    """

    def __init__(
        self,
        runtimes: Mapping[str, Runtime],
        *,
        make_ready: MakeReady,
        complete: Complete,
        on_change: Callable[[str], None],
        heard: "HeardLaunches",
    ) -> None:
        self._runtimes = runtimes
        self._make_ready = make_ready
        self._complete = complete
        self._on_change = on_change
        self._lock = threading.Lock()
        self._known: dict[str, Launch] = {}
        self._asked: set[str] = set()
        """Launches that were requested since this agent started."""
        self._preparing: set[str] = set()
        self._failed: dict[str, LaunchReport] = {}
        self._failing: set[str] = set()
        """Launches whose claim is being taken because they failed: their reports do not say why yet."""
        self._claimed: set[str] = set()
        """Launches that a supervisor is known to have had. If such a launch has no record, its record was lost."""
        self._stopped_for: dict[str, str] = {}
        """The reasons for stops that no server has requested, by launch id."""
        self._heard = heard

    def launch(self, launch: Launch) -> None:
        """Start a launch unless it was requested before. Raises Refused for a runtime that does not exist here."""
        if launch.runtime not in self._runtimes:
            raise Refused(f"there is no runtime {launch.runtime!r} here", field="runtime")
        with self._lock:
            if launch.id in self._asked:
                return
            self._asked.add(launch.id)
            self._known[launch.id] = launch
            self._preparing.add(launch.id)
        self._make_ready(launch, lambda failure: self._start(launch, failure))

    def _start(self, launch: Launch, failure: CorralError | None) -> None:
        try:
            if failure is not None:
                raise failure
            complete = self._complete(launch)
            with self._lock:
                # A launch that is not known any more was given up while its devices were made ready.
                known = self._known.get(launch.id)
                if known is not None:
                    # The launch's time limit may have been changed meanwhile.
                    self._runtimes[launch.runtime].launch(replace(complete, job=known.job))
        except CorralError as error:
            self._fail(launch, error)
        with self._lock:
            self._preparing.discard(launch.id)
        if launch.id in self._failed:
            self._on_change(launch.id)

    def _fail(self, launch: Launch, error: CorralError) -> None:
        never_runs = True
        self._failing.add(launch.id)
        # If this fails too, no supervisor was asked to run the launch, so none can claim it.
        with contextlib.suppress(BackendFailed):
            never_runs = self._runtimes[launch.runtime].declare_lost(launch.id)
        if never_runs:
            self._failed[launch.id] = failed_launch(launch.id, error)
        self._failing.discard(launch.id)

    def stop(self, launch_id: str) -> None:
        """End a launch. A launch that is not claimed yet never runs. Raises BackendFailed."""
        runtime = self._runtime_of(launch_id)
        known = runtime.report(launch_id).phase is not LaunchPhase.UNKNOWN
        if known or not runtime.declare_lost(launch_id, ran=launch_id in self._claimed):
            runtime.stop(launch_id)
        self._on_change(launch_id)

    def signal(self, launch_id: str, name: str, *, caught: bool = False, relayed: bool = False) -> None:
        """Send a signal such as "B:USR1" to the processes that it is meant for, with `caught` only to those that catch
        it.

        With `relayed` it goes by those processes that pass it on, if there are any. Raises Refused for an invalid
        signal.
        """
        try:
            sent = CheckpointSignal.parse(name)
            number = signal.Signals[f"SIG{sent.name}"]
        except (KeyError, ValueError):
            raise Refused(f"{name!r:.20} is not a signal", field="name") from None
        runtime = self._runtime_of(launch_id)

        def meant() -> Set[int]:
            main = runtime.main_processes(launch_id)
            found = sent.among(runtime.pids(launch_id), main.pids)
            told = {pid for pid in found if catches(pid, number)} if caught else found
            if relayed and main.relays and number != signal.SIGTERM:
                return main.relays if told & main.pids else set()
            return told

        signal_listed(meant(), meant, number)

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Run a command inside a launch. Raises Conflict if the launch does not run, Refused, BackendFailed."""
        phase = self.report(launch_id).phase
        if phase is not LaunchPhase.RUNNING:
            raise Conflict(f"launch {launch_id} is {phase}, and only what runs takes a command")
        return self._runtime_of(launch_id).execute(launch_id, command)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Replace the time limit of a launch, even if it has not started yet. Raises BackendFailed."""
        with self._lock:
            known = self._known.get(launch_id)
            if known is not None:
                self._known[launch_id] = with_time_limit(known, time_limit_s)
            runtime = self._runtime_of(launch_id)
        runtime.set_time_limit(launch_id, time_limit_s)

    def report(self, launch_id: str) -> LaunchReport:
        """Return the report of a launch. If its record cannot be read, the launch is UNKNOWN, with the reason."""
        if launch_id in self._failed:
            return self._failed[launch_id]
        try:
            report = self._of_runtime(launch_id)
        except BackendFailed as error:
            return LaunchReport(launch_id, LaunchPhase.UNKNOWN, reason=str(error))
        # The claim of a launch that failed is taken before its report can say why.
        failing = launch_id in self._failing
        if report.phase is LaunchPhase.DECLARED_LOST and (failing or launch_id in self._failed):
            return self._failed.get(launch_id) or LaunchReport(launch_id, LaunchPhase.PREPARING)
        if report.phase is LaunchPhase.UNKNOWN and launch_id in self._preparing:
            return replace(report, phase=LaunchPhase.PREPARING)
        if report.phase in (LaunchPhase.CLAIMED, LaunchPhase.RUNNING):
            self._claimed.add(launch_id)
        if report.phase is LaunchPhase.EXITED and launch_id in self._stopped_for:
            return replace(report, reason=report.reason or self._stopped_for[launch_id])
        return report

    def _of_runtime(self, launch_id: str) -> LaunchReport:
        """Return the runtime's report. If a launch has reported events but has no record, it ran and its record was
        lost.
        """
        runtime = self._runtime_of(launch_id)
        report = runtime.report(launch_id)
        lost = report.phase is LaunchPhase.UNKNOWN and report.reason is None and launch_id in self._heard
        if not lost or launch_id not in self._known:
            return report
        runtime.declare_lost(launch_id, ran=True)
        return runtime.report(launch_id)

    def declare_lost(self, launch_id: str, *, ran: bool) -> bool:
        """Declare a launch lost as `corral.core.ports.runtime.Runtime.declare_lost` does."""
        never_ran = self._runtime_of(launch_id).declare_lost(launch_id, ran=ran)
        self._on_change(launch_id)
        return never_ran

    def forget(self, launch_id: str) -> Callable[[], None]:
        """Forget a launch that is over and whose end is in the ledger. Return a function that removes its records.

        The caller runs that function when nothing more urgent is to be done. It may raise BackendFailed.
        """
        with self._lock:
            launch = self._known.pop(launch_id, None)
            self._asked.discard(launch_id)
            self._preparing.discard(launch_id)
            self._claimed.discard(launch_id)
            self._failed.pop(launch_id, None)
            self._stopped_for.pop(launch_id, None)
            self._heard.discard(launch_id)
        own = None if launch is None else self._runtimes.get(launch.runtime)
        return partial(self._remove_records, launch_id, tuple(self._runtimes.values()) if own is None else (own,))

    @staticmethod
    def _remove_records(launch_id: str, runtimes: Collection[Runtime]) -> None:
        """Remove the records that these runtimes keep of a launch that is over."""
        for runtime in runtimes:
            if runtime.report(launch_id).phase.over:
                runtime.forget(launch_id)

    def restore(self, allocated: Collection[Launch]) -> dict[str, Runtime]:
        """Replace the known launches by these. Return recorded launches that are not among them, with their runtimes.

        An allocated launch that was never claimed is declared lost. Watches, which are kept in memory, begin again.
        """
        with self._lock:
            self._known = {launch.id: launch for launch in allocated}
            self._asked &= self._known.keys()
            self._preparing &= self._known.keys()
            self._claimed &= self._known.keys()
            self._failed = {name: why for name, why in self._failed.items() if name in self._known}
            self._claimed |= {launch.id for launch in allocated if launch.job.started_at is not None}
        for launch in allocated:
            _attempt(partial(self._take_over, launch))
        unknown: dict[str, Runtime] = {}
        for runtime in self._runtimes.values():
            unknown |= {name: runtime for name in runtime.launches() if name not in self._known}
        return dict(sorted(unknown.items()))

    def _take_over(self, launch: Launch) -> None:
        runtime, limit_s = self._runtime_of(launch.id), launch.job.spec.time_limit_s
        if launch.id not in self._asked:
            if launch.job.spec.kind is not JobKind.RUN:
                runtime.launch(launch)
            elif runtime.report(launch.id).phase is LaunchPhase.UNKNOWN:
                runtime.declare_lost(launch.id, ran=launch.id in self._claimed)
        if limit_s is not None:
            # The limit may have changed while no agent was running.
            runtime.set_time_limit(launch.id, limit_s)

    def origins(self) -> tuple[Origin, ...]:
        """Return the marks of the processes of each job here, the oldest job first."""
        known = dict(self._known)
        recorded = {name: None for runtime in self._runtimes.values() for name in runtime.launches()}
        return tuple(
            Origin(
                job_of(name),
                self._runtime_of(name).lineage(name),
                _uid_of(known[name].job) if name in known else None,
            )
            for name in (*known, *(name for name in recorded if name not in known))
        )

    def stop_all(self, reason: str) -> tuple[str, ...]:
        """Stop all launches that have not ended, for this reason. Return their ids."""
        names = {*self._known, *(name for runtime in self._runtimes.values() for name in runtime.launches())}
        live = tuple(name for name in sorted(names) if not self.report(name).phase.over)
        for name in live:
            self._stopped_for[name] = reason
            _attempt(partial(self.stop, name))
        return live

    def close(self) -> None:
        """Stop watching. The work runs on."""
        for runtime in self._runtimes.values():
            runtime.close()

    def _runtime_of(self, launch_id: str) -> Runtime:
        launch = self._known.get(launch_id)
        return self._runtimes[DEFAULT_RUNTIME if launch is None else launch.runtime]


def _uid_of(job: Job) -> int | None:
    """Return the user of the job's processes that Corral or a session starts; None for an adopted process."""
    match job.spec.kind:
        case JobKind.ADOPT:
            return None
        case JobKind.RESERVE:
            return os.geteuid() if job.spec.uid is None else job.spec.uid
        case JobKind.RUN:
            # Only root can run a job as another user.
            return os.geteuid() or job.spec.uid or 0


def _attempt(step: Callable[[], None]) -> None:
    try:
        step()
    except CorralError as error:
        log.error("%s", error)
