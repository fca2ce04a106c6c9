"""Jobs for pods that others created. They wait in a queue like all jobs, and a binding starts them."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.control.service import Service
from corral.core.lifecycle import commands
from corral.core.model.fact import Delta, Fact, JobChanged, ServerPart
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.jobs.submission import Submission
from corral.core.model.view import View
from corral.core.ports.images import ContainerProgram
from corral.core.ports.job_devices import JobDevices
from corral.core.ports.ledger import Decided, JobQuery, Ledger


class LedgerPodJobs:
    """Implements `corral.core.ports.pod_jobs.PodJobs`. `stop` ends the work of an allocation whose job is STOPPING."""

    def __init__(
        self, ledger: Ledger, service: Service, clock: Clock, stop: Callable[[str], None], devices: JobDevices
    ) -> None:
        self.devices = devices
        self._ledger = ledger
        self._service = service
        self._clock = clock
        self._stop = stop

    def live(self) -> Sequence[Job]:
        return [job for job in self._ledger.view().jobs.values() if job.spec.pods and not job.phase.terminal]

    def find(self, job_id: str) -> Job | None:
        return self._ledger.view().jobs.get(job_id) or self._ledger.find_job(job_id)

    def ended(self, limit: int) -> Sequence[Job]:
        newest = self._ledger.jobs(JobQuery(phases=tuple(TERMINAL_PHASES), limit=limit))
        return [job for job in newest if job.spec.pods]

    def image_known(self, program: ContainerProgram, user: str) -> bool:
        return self._service.images.known_or_begun(program.image, user) is not None

    def submit(
        self, submission: Submission, pods: tuple[PodRef, ...], user: str, program: ContainerProgram | None = None
    ) -> "Future[str]":
        return self._service.submit_for_pods(submission, pods, Caller(user), program)

    def spec(self, submission: Submission, user: str, program: ContainerProgram | None = None) -> JobSpec:
        return self._service.spec_for_pods(submission, Caller(user), program)

    def withdraw(self, job_id: str, reason: str) -> bool:
        def decide(view: View) -> Decided[bool]:
            job = view.jobs.get(job_id)
            if job is None or job.phase is not Phase.PENDING:
                return Decided((), False)
            at = self._clock.now()
            facts = commands.cancel(view, job, by=ServerPart.POD_BINDER, at=at, reason=reason)
            return Decided(tuple(facts), True)

        return self._ledger.commit(decide).result()

    def cancel(self, job_id: str, reason: str) -> None:
        def decide(view: View) -> Decided[str | None]:
            job = view.jobs.get(job_id)
            if job is None or job.phase not in (Phase.PENDING, Phase.STARTING, Phase.RUNNING):
                return Decided((), None)
            at = self._clock.now()
            facts: Sequence[Fact] = commands.cancel(view, job, by=ServerPart.POD_BINDER, at=at, reason=reason)
            return Decided(tuple(facts), job.allocation_id)

        allocation_id = self._ledger.commit(decide).result()
        if allocation_id is not None:
            self._stop(allocation_id)

    def why(self, job_id: str) -> str:
        return self._service.explanations.of(job_id).reason

    def follow(self, changed: Callable[[str], None]) -> None:
        def on_change(view: View, deltas: Sequence[Delta]) -> None:
            for delta in deltas:
                if isinstance(delta, JobChanged) and "phase" in delta.changes:
                    changed(delta.job_id)

        self._ledger.subscribe(on_change)
