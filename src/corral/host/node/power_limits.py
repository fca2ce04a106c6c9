"""Sets the power limits of devices for jobs, and restores those from before: also after a crash.

A record on disk, written whole before a limit changes, has the limit from before and the job's. The next agent reads
it.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from corral.core.model.devices.device import Device
from corral.core.model.errors import BackendFailed
from corral.core.model.units import MW_PER_W
from corral.host.runtimes.process.records.whole_files import (
    Unreadable,
    a_count,
    a_text,
    decode_record,
    read_record,
    sync_directory,
    temporary_beside,
    write_all,
)
from corral.host.telemetry.driver_thread import CallHung, DriverThread
from corral.vendors.vendor import PowerControl

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_S = 10.0
"""The longest wait for the driver."""

ROOT_ONLY = "a driver accepts a power limit only from root, and Corral runs as somebody else on this node"

_ENDING = ".json"
_MOST_MW = 10**9
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class PowerRecord:
    """A device whose power limit a job has changed, from `before_mw` to `limit_mw`."""

    uuid: str
    vendor: str
    before_mw: int
    limit_mw: int


class PowerLimits:
    """The power limits that jobs have set on this host. Safe from any thread, with one call at a time for a device.

    `control_of` returns the control of a vendor's devices, by the vendor's name.
    """

    def __init__(self, directory: Path, control_of: Callable[[str], PowerControl]) -> None:
        self._directory = directory
        self._control_of = control_of
        self._driver = DriverThread(PATIENCE_S)
        self._records = {record.uuid: record for record in _recorded(directory)}
        self._hung: set[str] = set()
        """Devices on which a call hung that sets a limit: it may still come about."""

    def close(self) -> None:
        """End the thread of driver calls; limits stay as they are."""
        self._driver.close()

    @property
    def changed(self) -> tuple[str, ...]:
        """The UUIDs of the devices with a record."""
        return tuple(self._records)

    def before_mw(self, uuid: str) -> int | None:
        """The power limit of a device from before a job changed it; None if no job has."""
        record = self._records.get(uuid)
        return None if record is None else record.before_mw

    def set(self, device: Device, limit_mw: int) -> None:
        """Set the limit of a device. If that fails, it is as before. Raises BackendFailed, with the driver's words."""
        control = self._control_of(device.vendor)
        before_mw = self._ask(partial(control.limit_mw, device.uuid))
        if before_mw == limit_mw:
            return
        self._write(PowerRecord(device.uuid, device.vendor, before_mw, limit_mw))
        try:
            self._ask(partial(control.set_limit_mw, device.uuid, limit_mw))
        except CallHung:
            self._hung.add(device.uuid)
            raise
        except BackendFailed:
            with suppress(BackendFailed):
                self.restore(device.uuid)
            raise

    def restore(self, uuid: str) -> None:
        """Restore the limit that a device had before a job changed it, unless somebody else has changed it since.

        Raises BackendFailed if the driver does not; then the record stays, for the next time.
        """
        record = self._records.get(uuid)
        if record is None:
            return
        control = self._control_of(record.vendor)
        now_mw = self._ask(partial(control.limit_mw, uuid))
        # Drivers round limits. Another limit is an administrator's, or that of a driver that has started anew.
        if abs(now_mw - record.limit_mw) < MW_PER_W or uuid in self._hung:
            self._ask(partial(control.set_limit_mw, uuid, record.before_mw))
            self._hung.discard(uuid)
        with suppress(OSError):
            os.unlink(self._path(uuid))
        del self._records[uuid]

    def _ask(self, call: Callable[[], T]) -> T:
        return self._driver.run(call, PATIENCE_S)

    def _write(self, record: PowerRecord) -> None:
        path = self._path(record.uuid)
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            _write_whole(path, json.dumps(asdict(record)).encode())
        except OSError as error:
            raise BackendFailed(f"the power limit of {record.uuid} is not changed: {error.strerror}: {path}") from error
        self._records[record.uuid] = record

    def _path(self, uuid: str) -> str:
        return os.path.join(self._directory, f"{uuid.replace('/', '_')}{_ENDING}")


def _recorded(directory: Path) -> Iterator[PowerRecord]:
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(_ENDING))
    except OSError:
        return
    for name in names:
        path = os.path.join(directory, name)
        try:
            line = read_record(path)
            if line is not None:
                yield decode_record(path, line, _record_of)
        except (OSError, Unreadable) as error:
            log.warning("%s: a GPU may still have the power limit of a job that has ended", error)


def _record_of(values: Any) -> PowerRecord:
    return PowerRecord(
        uuid=a_text(values["uuid"], _LONGEST),
        vendor=a_text(values["vendor"], _LONGEST),
        before_mw=a_count(values["before_mw"], 0, _MOST_MW),
        limit_mw=a_count(values["limit_mw"], 0, _MOST_MW),
    )


def _write_whole(path: str, data: bytes) -> None:
    """Replace a file by one with this content, which is on disk on return."""
    temporary = temporary_beside(path)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))
