"""The acting hand: launches what was committed, stops what is to stop, and brings back what became of it.

Commit precedes action. Whatever happens to a launch comes back as its runtime's report, read from what is on disk;
a notice only says where to look. So a notice may be lost, doubled or late: the sweep looks at every live launch again.
"""

import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from corral.clock import Clock
from corral.control.checkpointing import Checkpoints
from corral.control.cleaning import PAUSE_S, Cleaner
from corral.control.device_setup import DeviceSetup
from corral.control.watching.guards import Tell
from corral.lifecycle import ending, starting, stopping
from corral.lifecycle.step import Backoff
from corral.model.errors import BackendFailed, CorralError, Refused
from corral.model.fact import Fact, ServerPart
from corral.model.job import Job, JobKind, Phase
from corral.model.launch import Launch, LaunchPhase, LaunchReport, Origin
from corral.model.view import View
from corral.ports.ledger import Decided, Ledger
from corral.ports.runtime import Runtime
from corral.scheduling.explaining.eviction_notices import goes_on, told_to_stop

log = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 5.0
LAUNCH_DOUBT_S = 30.0
"""A launch that nobody claimed for so long is taken back."""

_OVER = (LaunchPhase.EXITED, LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST)


class Dispatcher:
    """Acts on what the ledger says, on a thread of its own."""

    def __init__(
        self,
        ledger: Ledger,
        runtimes: Mapping[JobKind, Runtime],
        clock: Clock,
        launch_of: Callable[[Job, View], Launch],
        backoff: Backoff,
        *,
        device_setup: DeviceSetup,
        tell: Tell,
        kill_grace_s: float,
    ) -> None:
        self._ledger = ledger
        self._runtimes = runtimes
        self._clock = clock
        self._launch_of = launch_of
        self._backoff = backoff
        self._device_setup = device_setup
        self._tell = tell
        self._told: set[str] = set()
        self._kill_grace_s = kill_grace_s
        self._todo: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._started_at: dict[str, float] = {}
        self._failed: dict[str, str] = {}
        self._troubles: dict[str, str] = {}
        self._checkpoints = Checkpoints(clock, self.stop)
        self._acted_at = 0.0
        self._cleaner = Cleaner(self._busy)
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Begin to act; call `recover` first."""
        self._thread.start()
        self._cleaner.start()

    def close(self) -> None:
        """Finish what is in hand and stop; the jobs run on."""
        self._todo.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._device_setup.close()
        self._cleaner.close()

    def launch(self, allocation_id: str) -> None:
        """Launch a committed allocation; returns at once."""
        self._todo.put(("launch", allocation_id))

    def stop(self, allocation_id: str) -> None:
        """End the work of an allocation whose job is STOPPING, or the watch over one given back; returns at once."""
        self._todo.put(("stop", allocation_id))

    def look(self, allocation_id: str) -> None:
        """Something happened to this launch: read its report. For runtimes to call, from any thread."""
        self._todo.put(("read_report", allocation_id))

    def origins(self) -> tuple[Origin, ...]:
        """By what the processes of each live job are known, the job that came first first."""
        view = self._ledger.view()
        return tuple(
            Origin(job.id, self._runtimes[job.spec.kind].lineage(allocation.id), _uid_of(job))
            for allocation in view.allocations.values()
            if (job := view.jobs.get(allocation.job_id)) is not None
        )

    def trouble(self, allocation_id: str) -> str | None:
        """What stands in the way of the next step of a launch, and is tried again; None when nothing does."""
        return self._troubles.get(allocation_id)

    def recover(self) -> None:
        """Compare what runs with what the ledger says, after a boot, and bring both together.

        Launches that match are adopted, ones that nobody claimed are taken back, ends that were missed are recorded,
        and work that carries Corral's mark but is not in the ledger is ended.
        """
        view = self._ledger.view()
        for sentence in self._device_setup.recover(view):
            log.warning("%s", sentence)
        for job in stopping.live(view):
            assert job.allocation_id is not None
            self._attempt(self._readopt, job, job.allocation_id)
        for kind, runtime in self._runtimes.items():
            for allocation_id in runtime.launches():
                if allocation_id not in view.allocations:
                    self._attempt(self._end_stranger, kind, allocation_id)
        for deed in self._device_setup.leftovers(self._ledger.view):
            self._cleaner.add(deed)

    def _attempt(self, deed: Callable[[Any, str], None], what: Any, allocation_id: str) -> None:
        try:
            deed(what, allocation_id)
        except CorralError as error:
            self._note_trouble(allocation_id, f"launch {allocation_id} cannot be looked at", error)

    def _readopt(self, job: Job, allocation_id: str) -> None:
        runtime = self._runtimes[job.spec.kind]
        if job.spec.kind is not JobKind.RUN:
            runtime.launch(self._launch_of(job, self._ledger.view()))
        elif runtime.report(allocation_id).phase is LaunchPhase.UNKNOWN:
            runtime.declare_lost(allocation_id, ran=job.started_at is not None)
        future = self._settle(allocation_id, by=ServerPart.RECOVERY)
        if future is not None:
            future.result()
        if job.phase is Phase.STOPPING:
            self.stop(allocation_id)

    def _end_stranger(self, kind: JobKind, allocation_id: str) -> None:
        runtime = self._runtimes[kind]
        phase = runtime.report(allocation_id).phase
        if phase in (LaunchPhase.CLAIMED, LaunchPhase.RUNNING):
            log.warning("launch %s runs but is not in the ledger: ending it", allocation_id)
            runtime.stop(allocation_id)
        elif phase is not LaunchPhase.UNKNOWN or runtime.declare_lost(allocation_id):
            self._cleaner.add(partial(runtime.forget, allocation_id))

    def _run(self) -> None:
        deeds = {"launch": self._launch, "stop": self._stop, "read_report": self._read_report, "forget": self._forget}
        next_sweep = self._clock.monotonic() + SWEEP_INTERVAL_S
        while True:
            try:
                todo = self._todo.get(timeout=max(0.01, next_sweep - self._clock.monotonic()))
            except queue.Empty:
                todo = ("sweep", "")
            if todo is None:
                return
            deed, allocation_id = todo
            if deed != "sweep":
                self._acted_at = self._clock.monotonic()
                try:
                    deeds[deed](allocation_id)
                except CorralError as error:
                    self._note_trouble(allocation_id, f"{deed} of launch {allocation_id} failed", error)
            if self._clock.monotonic() >= next_sweep:
                next_sweep = self._clock.monotonic() + SWEEP_INTERVAL_S
                self._sweep()

    def _live_job(self, allocation_id: str) -> Job | None:
        view = self._ledger.view()
        allocation = view.allocations.get(allocation_id)
        return None if allocation is None else view.jobs.get(allocation.job_id)

    def _launch(self, allocation_id: str) -> None:
        job = self._live_job(allocation_id)
        if job is None or job.phase is not Phase.STARTING or allocation_id in self._started_at:
            return
        view = self._ledger.view()
        try:
            ready = self._device_setup.enter(
                job, view.allocations[allocation_id], view, lambda: self.launch(allocation_id)
            )
            if not ready:
                return
            self._started_at[allocation_id] = self._clock.monotonic()
            if job.evicted_before is not None:
                log.info("job %s: %s", job.id, goes_on(job.evicted_before))
            self._runtimes[job.spec.kind].launch(self._launch_of(job, view))
        except (BackendFailed, Refused) as failure:
            self._started_at[allocation_id] = self._clock.monotonic()
            try:
                given_back = self._runtimes[job.spec.kind].declare_lost(allocation_id)
            except BackendFailed:
                # Nobody was asked to run it, so that nobody can claim it either: the ledger's word is enough.
                given_back = True
            if given_back:
                self._failed[allocation_id] = str(failure)
                self._record_failure(allocation_id)

    def _record_failure(self, allocation_id: str) -> None:
        why = self._failed[allocation_id]
        self._record(
            allocation_id,
            lambda view, j, at: starting.launch_failed(
                view, j, why, by=ServerPart.DISPATCHER, at=at, backoff=self._backoff
            ),
        )

    def _stop(self, allocation_id: str) -> None:
        job = self._live_job(allocation_id)
        if allocation_id in self._failed:
            self._record_failure(allocation_id)
        elif job is None and JobKind.RESERVE in self._runtimes:
            self._runtimes[JobKind.RESERVE].stop(allocation_id)
        elif job is not None and job.phase is Phase.STOPPING:
            self._tell_of_eviction(job, allocation_id)
            self._end(self._runtimes[job.spec.kind], job, allocation_id)
            self._settle(allocation_id)

    def _tell_of_eviction(self, job: Job, allocation_id: str) -> None:
        """Say for whom the job is stopped, in its log and the server's, once."""
        eviction = job.evicted
        if eviction is not None and job.stop_reason is Phase.PENDING and allocation_id not in self._told:
            self._told.add(allocation_id)
            log.info("job %s: %s", job.id, told_to_stop(eviction))
            self._tell(job.id, told_to_stop(eviction))

    def _end(self, runtime: Runtime, job: Job, allocation_id: str) -> None:
        """Stop a launch once the job has had time for its checkpoint, or see to it that it never runs."""
        if not self._checkpoints.may_end(job, allocation_id, lambda: runtime.pids(allocation_id)):
            return
        known = runtime.report(allocation_id).phase is not LaunchPhase.UNKNOWN
        if known or not runtime.declare_lost(allocation_id, ran=job.started_at is not None):
            runtime.stop(allocation_id)

    def _read_report(self, allocation_id: str) -> None:
        """A supervisor had this launch, or there would be no news of it: one without a record has lost that."""
        self._settle(allocation_id, ran=True)

    def _settle(
        self, allocation_id: str, *, ran: bool = False, by: ServerPart = ServerPart.DISPATCHER
    ) -> "Future[bool] | None":
        """Read a launch's report and write what it means for its job."""
        job = self._live_job(allocation_id)
        if job is None:
            self._todo.put(("forget", allocation_id))
            return None
        runtime = self._runtimes[job.spec.kind]
        report = runtime.report(allocation_id)
        if report.phase is LaunchPhase.UNKNOWN and report.reason is not None:
            self._troubles[allocation_id] = report.reason
        elif report.phase is LaunchPhase.UNKNOWN and (ran or job.started_at is not None):
            runtime.declare_lost(allocation_id, ran=True)
            report = runtime.report(allocation_id)
        match report.phase:
            case LaunchPhase.RUNNING if job.phase is Phase.STARTING:
                return self._record(
                    allocation_id, lambda view, j, at: starting.running(view, j, report.started_at, by=by, at=at)
                )
            case LaunchPhase.CLAIMED | LaunchPhase.RUNNING if self._overdue(job, report, by, self._clock.now()):
                ending = self._record(allocation_id, lambda _, j, at: self._overdue(j, report, by, at))
                ending.add_done_callback(lambda _: self.stop(allocation_id))
                return ending
            case LaunchPhase.EXITED | LaunchPhase.DEAD | LaunchPhase.DECLARED_LOST:
                return self._record(allocation_id, lambda view, j, at: self._outcome(view, j, report, by, at))
        return None

    def _record(self, allocation_id: str, facts: Callable[[View, Job, float], list[Fact]]) -> "Future[bool]":
        """Commit what `facts` makes of the allocation's job; afterwards forget a launch that is over."""

        def decide(view: View) -> Decided[bool]:
            allocation = view.allocations.get(allocation_id)
            if allocation is None:
                return Decided((), True)
            found = tuple(facts(view, view.jobs[allocation.job_id], self._clock.now()))
            return Decided(found, any(getattr(fact, "allocation_id", None) == allocation_id for fact in found))

        future = self._ledger.commit(decide)
        future.add_done_callback(lambda done: self._recorded(allocation_id, done))
        return future

    def _recorded(self, allocation_id: str, done: "Future[Any]") -> None:
        if done.exception() is not None:
            what = f"what became of launch {allocation_id} is not recorded"
            self._note_trouble(allocation_id, what, done.exception())
            return
        self._troubles.pop(allocation_id, None)
        if done.result():
            self._todo.put(("forget", allocation_id))

    def _forget(self, allocation_id: str) -> None:
        for known in (self._started_at, self._failed, self._troubles):
            known.pop(allocation_id, None)
        self._checkpoints.forget(allocation_id)
        self._told.discard(allocation_id)
        view = self._ledger.view()
        if allocation_id in view.allocations:
            return
        self._device_setup.leave(allocation_id, _job_id_of(allocation_id), view)
        self._cleaner.add(partial(self._clean, allocation_id))

    def _busy(self) -> bool:
        return self._clock.monotonic() - self._acted_at < PAUSE_S

    def _clean(self, allocation_id: str) -> None:
        self._device_setup.tidy(_job_id_of(allocation_id), self._ledger.view)
        for runtime in self._runtimes.values():
            if runtime.report(allocation_id).phase in _OVER:
                runtime.forget(allocation_id)

    def _sweep(self) -> None:
        """Look at every live launch again, take back the ones that nobody claimed in time, and repeat what failed."""
        for job in stopping.live(self._ledger.view()):
            assert job.allocation_id is not None
            self._attempt(self._look_again, job, job.allocation_id)

    def _look_again(self, job: Job, allocation_id: str) -> None:
        runtime = self._runtimes[job.spec.kind]
        if allocation_id in self._failed:
            self._record_failure(allocation_id)
            return
        if job.phase is Phase.STARTING and runtime.report(allocation_id).phase is LaunchPhase.UNKNOWN:
            since = self._started_at.get(allocation_id)
            if since is None:
                self._launch(allocation_id)
            elif self._clock.monotonic() - since > LAUNCH_DOUBT_S:
                runtime.declare_lost(allocation_id)
        elif job.phase is Phase.STOPPING:
            self._end(runtime, job, allocation_id)
        self._settle(allocation_id)

    def _overdue(self, job: Job, report: LaunchReport, by: str, at: float) -> list[Fact]:
        return stopping.overdue(job, report, self._kill_grace_s, by=by, at=at)

    def _note_trouble(self, allocation_id: str, what: str, error: BaseException | None) -> None:
        if self._troubles.get(allocation_id) != str(error):
            log.error("%s, and is tried again: %s", what, error)
        self._troubles[allocation_id] = str(error)

    def _outcome(self, view: View, job: Job, report: LaunchReport, by: str, at: float) -> list[Fact]:
        if report.phase is LaunchPhase.DECLARED_LOST:
            if report.reason is None:
                return starting.never_ran(view, job, by=by, at=at)
            return starting.launch_failed(view, job, report.reason, by=by, at=at, backoff=self._backoff)
        return ending.ended(view, job, report, by=by, at=at, backoff=self._backoff)


def _uid_of(job: Job) -> int | None:
    """Whose the job's processes are that Corral starts, or that a session starts; None for an adopted one."""
    match job.spec.kind:
        case JobKind.ADOPT:
            return None
        case JobKind.RESERVE:
            return os.geteuid() if job.spec.uid is None else job.spec.uid
        case JobKind.RUN:
            # Only root can run a job as another user.
            return os.geteuid() or job.spec.uid or 0


def _job_id_of(allocation_id: str) -> str:
    return allocation_id.rpartition(".")[0]
