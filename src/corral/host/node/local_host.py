"""This machine, apart from the launches on it."""

from collections.abc import Callable
from dataclasses import dataclass

from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import Node
from corral.core.model.errors import BackendFailed, Conflict, NotFound, Refused
from corral.core.model.jobs.notification import Notification
from corral.core.model.runs.launch import Launch
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.images import ImageFacts
from corral.core.ports.node import DeviceTest, DeviceTestReport, FileFinding, ProcessFound, Rendezvous, SliceChange
from corral.host.node.device_testing import DeviceTesting
from corral.host.node.files.file_inspector import HostFileInspector
from corral.host.node.files.resource_files import ResourceFiles
from corral.host.node.host_accounts import HostAccounts
from corral.host.node.launches.meeting_door import why_not_reached
from corral.host.node.launches.notification_runner import NotificationRunner
from corral.host.runtimes.docker.images import local_image
from corral.host.runtimes.process.procfs import LocalProcess
from corral.host.telemetry.processes import HostProcesses
from corral.unix_peer import user_name
from corral.vendors.registry import vendor_of
from corral.wire import to_plain


@dataclass(frozen=True, slots=True)
class LocalHost:
    """Implements `corral.core.ports.node.HostAccess`. `mig_changes` says whether administrators may change slices."""

    processes: HostProcesses
    inspector: HostFileInspector
    files: ResourceFiles
    notifications: NotificationRunner
    inventory: Callable[[], Node | None]
    mig_changes: bool
    testing: DeviceTesting
    log_of_driver: Callable[[str], tuple[str, ...] | None]
    fence_process: Callable[[LocalProcess, tuple[str, ...]], bool]
    accounts: HostAccounts | None = None

    def process(self, pid: int) -> ProcessFound | None:
        identity = self.processes.identify(pid)
        uid = None if identity is None else self.processes.uid(identity)
        if identity is None or uid is None:
            return None
        user = None if self.accounts is None else user_name(uid)
        return ProcessFound(identity, uid, tuple(sorted(self.processes.family(pid))), user)

    def fence(self, pid: int, uid: int, boot_id: str, uuids: tuple[str, ...]) -> str | None:
        process = self.processes.identify(pid)
        if process is not None and process.boot_id != boot_id:
            return "its GPUs are on another machine"
        if process is None or self.processes.uid(process) != uid:
            raise Conflict(f"no process {pid} of user id {uid} runs here")
        try:
            held = self.fence_process(LocalProcess(pid, process.start_ticks, boot_id), uuids)
        except ProcessLookupError as error:
            raise Conflict(str(error)) from error
        except OSError as error:
            raise BackendFailed(f"process {pid} cannot be kept from the GPUs of others: {error}") from error
        return None if held else "the cgroup of its session is its user's own, who can leave it"

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        if self.accounts is not None:
            who = self.accounts.credentials(who)
        found = self.inspector.inspect(queries, who)
        return tuple(FileFinding(query, to_plain(facts)) for query, facts in found.items())

    def image(self, name: str) -> ImageFacts | None:
        return local_image(name)

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        if self.accounts is not None:
            allocated = tuple(map(self.accounts.as_it_runs, allocated))
        return self.files.compare(allocated)

    def notify(self, notification: Notification) -> bool:
        if self.accounts is not None:
            notification = self.accounts.notification(notification)
        return self.notifications.take(notification)

    def change_slices(self, uuid: str, change: SliceChange) -> SlicePlan:
        node = self.inventory()
        device = next((one for one in (() if node is None else node.devices) if one.uuid == uuid), None)
        if device is None:
            raise NotFound(f"there is no device {uuid} on this node any more", field="device")
        make = vendor_of(device).change_slices
        if make is None:
            raise Refused(f"--mig: slices of {device.model} are not changed by Corral", field="device")
        return make(device, change, self.mig_changes)

    def driver_log(self, uuid: str) -> tuple[str, ...] | None:
        return self.log_of_driver(uuid)

    def reaches(self, meeting: Rendezvous) -> str | None:
        return why_not_reached(meeting)

    def test_device(self, test: DeviceTest) -> DeviceTestReport | None:
        return self.testing.take(test)
