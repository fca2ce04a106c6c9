"""The errors that drivers report of devices: joined from events and the kernel's log, and kept for some minutes."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from corral.core.model.devices.device import Device, DeviceSample
from corral.core.model.devices.vitals import DriverError
from corral.host.telemetry.kernel_log import KernelLog
from corral.host.telemetry.signs.device_signs import ERRORS_KEPT_S, MOST_ERRORS
from corral.vendors.registry import vendors
from corral.vendors.vendor import LoggedError

TOGETHER_S = 3.0
"""An event and a line of the log within this time are the same error. Only the line names the process."""

PROCESSES_KEPT_S = 15.0
"""The time for which a process that has left a device is still known with its job."""

LINES_KEPT = 100
LINE_CHARACTERS = 500
"""The lines of the log that are kept of each device, and the most characters of each: they are evidence."""

OpenLog = Callable[[], KernelLog | None]
"""Returns the kernel's log from now on, None if it cannot be read."""

JobOf = Callable[[int], str | None]
"""Returns the job of a process that runs now, None if it has none."""


@dataclass(slots=True)
class _Errors:
    """The errors of one device: those that samples tell of, events that wait for their line, lines without an event."""

    kept: tuple[DriverError, ...] = ()
    events: list[DriverError] = field(default_factory=list)
    lines: list[DriverError] = field(default_factory=list)
    last: int = 0
    jobs: dict[int, tuple[str, float]] = field(default_factory=dict)

    def note_processes(self, sample: DeviceSample) -> None:
        """Remember the jobs of the device's processes for a while: an error often ends its process."""
        self.jobs = {pid: seen for pid, seen in self.jobs.items() if sample.taken_at - seen[1] < PROCESSES_KEPT_S}
        for process in sample.processes or ():
            if process.job_id is not None:
                self.jobs[process.pid] = process.job_id, sample.taken_at

    def add(self, error: DriverError, job_of: JobOf) -> None:
        """Tell of an error from now on, with the job of its process."""
        pid = error.pid
        job = None if pid is None else self.jobs[pid][0] if pid in self.jobs else job_of(pid)
        self.kept = _bounded((*self.kept, replace(error, job_id=job)))
        self.last = error.code


def _bounded(errors: tuple[DriverError, ...]) -> tuple[DriverError, ...]:
    """Return the errors without one if they are too many: the oldest whose number comes again, if there is one.

    A grave error is often followed by many of one kind, and a program may make as many as it likes.
    """
    if len(errors) <= MOST_ERRORS:
        return errors
    codes = [error.code for error in errors]
    left_out = next((place for place, code in enumerate(codes) if code in codes[place + 1 :]), 0)
    return errors[:left_out] + errors[left_out + 1 :]


class DriverErrors:
    """Adds to each sample the errors of its device in the last minutes. Not thread-safe."""

    def __init__(self, open_log: OpenLog = lambda: None, job_of: JobOf = lambda _: None) -> None:
        """`open_log` is called once there are devices. Without a log only errors of some sources name a process."""
        self._open_log: OpenLog | None = open_log
        self._log: KernelLog | None = None
        self._job_of = job_of
        self._devices: dict[str, _Errors] = {}
        self._logged: dict[str, deque[str]] = {}

    def logged(self, uuid: str) -> tuple[str, ...] | None:
        """Return the last lines about a device in the kernel's log, oldest first; None if the log cannot be read."""
        return None if self._log is None else tuple(self._logged.get(uuid, ()))

    def complete(self, samples: Sequence[DeviceSample], devices: Sequence[Device]) -> tuple[DeviceSample, ...]:
        """Return the samples, whose processes have their jobs already, with all errors that are still told."""
        if devices and self._open_log is not None:
            self._log, self._open_log = self._open_log(), None
        lines = self._new_lines(devices)
        return tuple(self._complete(sample, lines.get(sample.uuid, ())) for sample in samples)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _complete(self, sample: DeviceSample, lines: Sequence[LoggedError]) -> DeviceSample:
        errors = self._devices.get(sample.uuid)
        if errors is None:
            if not sample.errors and not lines and not sample.processes:
                return sample
            errors = self._devices[sample.uuid] = _Errors()
        now = sample.taken_at
        errors.note_processes(sample)
        for line in lines:
            self._take_line(errors, DriverError(line.code, now, line.pid))
        for event in sample.errors:
            self._take_event(errors, event)
        for event in [event for event in errors.events if now - event.at >= TOGETHER_S]:
            errors.events.remove(event)
            errors.add(event, self._job_of)
        errors.lines = [line for line in errors.lines if now - line.at < TOGETHER_S]
        errors.kept = tuple(error for error in errors.kept if now - error.at < ERRORS_KEPT_S)
        # A new reader of the driver has heard of no error yet, and an event that waits is told with its line.
        xid = errors.last if sample.xid == 0 or errors.events else sample.xid
        changed = errors.kept or sample.errors or xid != sample.xid
        return replace(sample, errors=errors.kept, xid=xid) if changed else sample

    def _take_line(self, errors: _Errors, line: DriverError) -> None:
        event = next((event for event in errors.events if event.code == line.code), None)
        if event is None:
            errors.lines.append(line)
        else:
            errors.events.remove(event)
        errors.add(line, self._job_of)

    def _take_event(self, errors: _Errors, event: DriverError) -> None:
        line = next((line for line in errors.lines if line.code == event.code), None)
        if line is not None:
            errors.lines.remove(line)
        elif self._log is None or event.pid is not None:
            errors.add(event, self._job_of)
        else:
            errors.events.append(event)

    def _new_lines(self, devices: Sequence[Device]) -> dict[str, list[LoggedError]]:
        """Return the errors that the kernel's log has since the last call, by the UUIDs of their devices."""
        found: dict[str, list[LoggedError]] = {}
        messages = None if self._log is None else self._log.lines()
        if messages is None:
            self.close()
        for line in messages or ():
            for name, vendor in vendors().items():
                error = vendor.signs.logged(line)
                where = None if error is None else _address(error.pci_bus_id)
                uuid = where and next((d.uuid for d in devices if d.vendor == name and _is_at(d, where)), None)
                if error is not None and uuid:
                    found.setdefault(uuid, []).append(error)
                    self._logged.setdefault(uuid, deque(maxlen=LINES_KEPT)).append(line[:LINE_CHARACTERS])
        return found


def _is_at(device: Device, address: tuple[int, ...]) -> bool:
    """Return whether the device is at this PCI address. A slice has no address of its own."""
    return device.pci_bus_id is not None and device.parent_uuid is None and _address(device.pci_bus_id) == address


def _address(pci_bus_id: str) -> tuple[int, ...] | None:
    """Return domain, bus and device of a PCI address, however many digits the domain has; None if it is none."""
    try:
        domain, bus, device = pci_bus_id.lower().partition(".")[0].split(":")
        return int(domain, 16), int(bus, 16), int(device, 16)
    except ValueError:
        return None
