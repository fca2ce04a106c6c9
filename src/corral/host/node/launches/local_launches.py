"""The launches of this host, as a server requests them."""

import threading
from dataclasses import dataclass, field, replace

from corral.clock import Clock
from corral.core.model.errors import NodeUnreachable
from corral.core.model.runs.launch import Launch, LaunchReport, checked_launch_id, job_of
from corral.core.ports.node import Keep, Readiness, Reconciled, Rendezvous, Reports
from corral.host.node.files.cleaner import Cleaner
from corral.host.node.host_accounts import HostAccounts
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
    accounts: HostAccounts | None = None
    _reconciling: threading.Lock = field(default_factory=threading.Lock)
    _is_reconciled: bool = False

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        self._refuse_before_reconciliation()
        samples = self.sampler.refresh(uuids, REFRESH_TIMEOUT_S) if uuids else ()
        return Readiness(samples, self.disks.trouble())

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        # Only one call runs at a time: a server without an answer calls again while the first call is still running.
        if self.accounts is not None:
            allocated = tuple(map(self.accounts.as_it_runs, allocated))
        with self._reconciling:
            allocated = tuple(map(self.setup.trees.in_its_directory, allocated))
            unknown = self.unknown.end(self.launches.restore(allocated))
            remarks = self.setup.restore(allocated, waiting)
            self._is_reconciled = True
            return Reconciled(remarks, unknown)

    def rendezvous(self, launch_id: str) -> Rendezvous:
        return self.meeting.of(checked_launch_id(launch_id))

    def launch(self, launch: Launch) -> None:
        self._refuse_before_reconciliation()
        checked_launch_id(launch.id)
        if self.accounts is not None:
            launch = self.accounts.on_this_host(launch)
        self.setup.trees.check_made(launch)
        self.cleaner.put_off()
        self.meeting.give_over(launch.id)
        self.launches.launch(self.setup.trees.in_its_directory(launch))

    def stop(self, launch_id: str) -> None:
        self.cleaner.put_off()
        self.launches.stop(checked_launch_id(launch_id))

    def signal(self, launch_id: str, name: str) -> None:
        self.launches.signal(checked_launch_id(launch_id), name)

    def tell_to_save(self, launch_id: str, name: str, stops_in_s: float | None) -> None:
        checked_launch_id(launch_id)
        if stops_in_s is not None:
            self.setup.note_stop(launch_id, stops_in_s)
        self.launches.signal(launch_id, name, caught=stops_in_s is None, relayed=True)

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self.launches.set_time_limit(checked_launch_id(launch_id), time_limit_s)
        if launch_id in self.setup.checkpoints:
            started_at = self.launches.report(launch_id).started_at
            ran_s = 0.0 if started_at is None else self.clock.now() - started_at
            self.setup.note_time_limit(launch_id, time_limit_s - ran_s)

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        reports = tuple(self._report(checked_launch_id(launch_id)) for launch_id in launch_ids)
        return Reports(self.clock.now(), reports)

    def _report(self, launch_id: str) -> LaunchReport:
        report = self.launches.report(launch_id)
        ago_s = self.setup.checkpoints.saved_ago(launch_id)
        return report if ago_s is None else replace(report, saved_at=self.clock.now() - ago_s)

    def declare_lost(self, launch_id: str, *, ran: bool) -> bool:
        return self.launches.declare_lost(checked_launch_id(launch_id), ran=ran)

    def forget(self, launch_id: str, *, keep: Keep) -> None:
        job_id = job_of(checked_launch_id(launch_id))
        remove_records = self.launches.forget(launch_id)
        self.meeting.forget(launch_id)
        self.cleaner.add(remove_records)
        self.setup.drop(launch_id, job_id, keep=keep)

    def _refuse_before_reconciliation(self) -> None:
        if not self._is_reconciled:
            raise NodeUnreachable("the node agent has just been started, and is not reconciled with the ledger yet")
