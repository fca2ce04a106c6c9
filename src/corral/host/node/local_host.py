"""This machine, apart from the launches on it."""

from collections.abc import Callable
from dataclasses import dataclass

from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import Node
from corral.core.model.errors import NotFound, Refused
from corral.core.model.jobs.notification import Notification
from corral.core.model.runs.launch import Launch
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.node import FileFinding, ProcessFound, SliceChange
from corral.host.node.files.file_inspector import HostFileInspector
from corral.host.node.files.resource_files import ResourceFiles
from corral.host.node.launches.notification_runner import NotificationRunner
from corral.host.telemetry.processes import HostProcesses
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

    def process(self, pid: int) -> ProcessFound | None:
        identity = self.processes.identify(pid)
        uid = None if identity is None else self.processes.uid(identity)
        if identity is None or uid is None:
            return None
        return ProcessFound(identity, uid, tuple(sorted(self.processes.family(pid))))

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        found = self.inspector.inspect(queries, who)
        return tuple(FileFinding(query, to_plain(facts)) for query, facts in found.items())

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        return self.files.compare(allocated)

    def notify(self, notification: Notification) -> bool:
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
