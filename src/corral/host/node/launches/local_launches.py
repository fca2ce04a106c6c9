"""The launches of this host, as a server requests them."""

import threading
from dataclasses import dataclass, field

from corral.clock import Clock
from corral.core.model.errors import NodeUnreachable
from corral.core.model.runs.launch import Launch, checked_launch_id, job_of
from corral.core.ports.node import Readiness, Reconciled, Rendezvous, Reports
from corral.host.node.files.cleaner import Cleaner
from corral.host.node.launches.launch_setup import LaunchSetup
from corral.host.node.launches.meeting_places import MeetingPlaces
from corral.host.node.launches.node_launches import NodeLaunches
from corral.host.node.launches.unknown_launches import UnknownLaunches
from corral.host.runtimes.disk import Disks
from corral.host.telemetry.sampler import Sampler

REFRESH_TIMEOUT_S = 2.0
"""The longest wait for the driver. If it does not answer in time, the job looks for another device."""


@dataclass(slots=True, kw_only=True)
class LocalLaunches:
    """Implements `corral.core.ports.node.Launches`. Nothing starts before the agent was reconciled with the ledger."""

    launches: NodeLaunches
    setup: LaunchSetup
    unknown: UnknownLaunches
    meeting: MeetingPlaces
    sampler: Sampler
    disks: Disks
    cleaner: Cleaner
    clock: Clock
    _reconciling: threading.Lock = field(default_factory=threading.Lock)
    _is_reconciled: bool = False

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        self._refuse_before_reconciliation()
        samples = self.sampler.refresh(uuids, REFRESH_TIMEOUT_S) if uuids else ()
        return Readiness(samples, self.disks.trouble())

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        # Only one call runs at a time: a server without an answer calls again while the first call is still running.
        with self._reconciling:
            unknown = self.unknown.end(self.launches.restore(allocated))
            remarks = self.setup.restore(allocated, waiting)
            self._is_reconciled = True
            return Reconciled(remarks, unknown)

    def rendezvous(self, launch_id: str) -> Rendezvous:
        return self.meeting.of(checked_launch_id(launch_id))

    def launch(self, launch: Launch) -> None:
        self._refuse_before_reconciliation()
        checked_launch_id(launch.id)
        self.cleaner.put_off()
        self.launches.launch(launch)

    def stop(self, launch_id: str) -> None:
        self.cleaner.put_off()
        self.launches.stop(checked_launch_id(launch_id))

    def signal(self, launch_id: str, name: str) -> None:
        self.launches.signal(checked_launch_id(launch_id), name)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self.launches.set_time_limit(checked_launch_id(launch_id), time_limit_s)

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        reports = tuple(self.launches.report(checked_launch_id(launch_id)) for launch_id in launch_ids)
        return Reports(self.clock.now(), reports)

    def declare_lost(self, launch_id: str, *, ran: bool) -> bool:
        return self.launches.declare_lost(checked_launch_id(launch_id), ran=ran)

    def forget(self, launch_id: str, *, keep_scratch: bool) -> None:
        job_id = job_of(checked_launch_id(launch_id))
        remove_records = self.launches.forget(launch_id)
        self.meeting.forget(launch_id)
        self.cleaner.add(remove_records)
        self.setup.drop(launch_id, job_id, keep_scratch=keep_scratch)

    def _refuse_before_reconciliation(self) -> None:
        if not self._is_reconciled:
            raise NodeUnreachable("the node agent has just been started, and is not reconciled with the ledger yet")
