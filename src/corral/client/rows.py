"""What a server tells, as typed values: keys that a newer server adds are passed over, missing ones have defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

ENDED_PHASES = ("SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT", "LOST")


@dataclass(frozen=True, slots=True)
class Row:
    """A value read from plain data."""

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Self:
        """The row that `data`, an object of the server's JSON, describes."""
        nested = cls._nested()
        return cls(**{name: _read(data[name], nested.get(name)) for name in _names(cls) if name in data})

    @classmethod
    def _nested(cls) -> "dict[str, type[Row]]":
        """Fields that hold lists of rows themselves."""
        return {}

    def to_plain(self) -> dict[str, Any]:
        """Plain data of the row, with all its keys."""
        return {name: _write(getattr(self, name)) for name in _names(type(self))}


def _names(cls: type[Row]) -> tuple[str, ...]:
    return tuple(cls.__dataclass_fields__)


def _read(value: Any, nested: type[Row] | None) -> Any:
    if type(value) is not list:
        return value
    return tuple(value) if nested is None else tuple(nested.from_plain(item) for item in value)


def _write(value: Any) -> Any:
    return [item.to_plain() if isinstance(item, Row) else item for item in value] if type(value) is tuple else value


@dataclass(frozen=True, slots=True)
class GrantRow(Row):
    """What a job has of a device: thousandths of it and MiB; memory None is all that goes with the share."""

    uuid: str
    share_milli: int = 1000
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class JobRow(Row):
    """One job as `ps` lists it. Times are Unix seconds; `devices` are UUIDs and stay after the end.

    Attributes:
        phase: a value of `corral.model.job.Phase`.
        exit_code: 128+N when `signal` N ended it; None if it never ran or was lost.
        reason: why it ended as it did.
        wait: one word on why it waits, None unless it does.
        gpus: devices asked for, a member.
        gpus_milli: thousandths of a GPU that it holds, or asks for.
        grants: what it holds of each device now.
        enforcement: what stands behind that, {"memory": "guarded", "compute": "advisory"}; None when it holds none.
    """

    id: str
    array_id: str | None = None
    array_index: int | None = None
    name: str = ""
    user: str = ""
    phase: str = "PENDING"
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    devices: tuple[str, ...] = ()
    priority: int = 5
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    attempts: int = 0
    kind: str = "run"
    held: bool = False
    queue: str = "default"
    project: str = "default"
    command: tuple[str, ...] = ()
    gpus: int | None = None
    gpus_milli: int | None = None
    grants: tuple[GrantRow, ...] = ()
    enforcement: Mapping[str, str] | None = None
    time_limit_s: float | None = None
    sequence: int | None = None
    wait: str | None = None
    expected_start: float | None = None

    @classmethod
    def _nested(cls) -> dict[str, type[Row]]:
        return {"grants": GrantRow}

    @property
    def ended(self) -> bool:
        """Whether it has ended for good and holds nothing."""
        return self.phase in ENDED_PHASES

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.phase == "SUCCEEDED"


@dataclass(frozen=True, slots=True)
class HolderRow(Row):
    """A job that holds a part of a device: thousandths of it and MiB."""

    job: str
    user: str = ""
    share_milli: int = 1000
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessRow(Row):
    """A process on a device; `job` is None when Corral did not start it."""

    pid: int
    user: str | None = None
    command: str | None = None
    memory_mib: int | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True)
class LinkRow(Row):
    """An NVLink or PCIe connection to another device: its UUID, the kind, and how many lanes."""

    peer: str
    kind: str = ""
    lanes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceRow(Row):
    """One device with its last sample; a measurement that could not be read is None.

    Attributes:
        uuid: as the driver says it.
        index: in PCI bus order, as nvidia-smi counts.
        state: unreadable, unhealthy, cordoned, allocated, reserved, in_use, stale or free.
        state_reason: why that, for a person.
        since: Unix seconds of when the state began.
        means: how it is shared: exclusive, mps, mig or timeslice.
        mig_profile, parent: of a MIG slice, and the UUID of the device that it is cut from.
    """

    uuid: str
    index: int | None = None
    name: str = ""
    state: str = "unreadable"
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    memory_free_mib: int | None = None
    utilization_pct: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    holders: tuple[HolderRow, ...] = ()
    processes: tuple[ProcessRow, ...] = ()
    state_reason: str | None = None
    since: float | None = None
    node: str | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    mig_enabled: bool | None = None
    mig_profile: str | None = None
    parent: str | None = None
    means: str = ""
    links: tuple[LinkRow, ...] = ()

    @classmethod
    def _nested(cls) -> dict[str, type[Row]]:
        return {"holders": HolderRow, "processes": ProcessRow, "links": LinkRow}

    @property
    def sliced(self) -> bool:
        """Whether it is in MIG mode, and only its slices are handed out."""
        return self.means == "mig" and self.mig_profile is None


@dataclass(frozen=True, slots=True)
class WaitPart(Row):
    """Seconds of a job's wait that had one reason."""

    reason: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Explanation(Row):
    """Why a job waits and when it will start; after its end, how the wait was spent.

    Attributes:
        position: place among the waiting jobs, from 1; None when it does not wait.
        expected_start: Unix seconds, or None when nobody can know; `reason` then says what it depends on.
        starts_now_with: flags with which it would start at once, if there are such.
        holds: what it has of shared devices, and what stands behind that.
    """

    id: str
    phase: str = "PENDING"
    reason: str = ""
    position: int | None = None
    expected_start: float | None = None
    starts_now_with: str | None = None
    holds: str | None = None
    waited: tuple[WaitPart, ...] = ()

    @classmethod
    def _nested(cls) -> dict[str, type[Row]]:
        return {"waited": WaitPart}


@dataclass(frozen=True, slots=True)
class DeviceChoice(Row):
    """A device that a job would get."""

    uuid: str
    index: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class DryRun(Row):
    """What would become of a submission: it would start now on `devices`, or wait for `reason`.

    Where it is not `possible` it can never start there, and would be refused.
    """

    starts_now: bool
    possible: bool = True
    devices: tuple[DeviceChoice, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    expected_start: float | None = None
    nearest: Mapping[str, Any] | None = None

    @classmethod
    def _nested(cls) -> dict[str, type[Row]]:
        return {"devices": DeviceChoice, "grants": GrantRow}


@dataclass(frozen=True, slots=True)
class MappedDevice(Row):
    """A device in the allocation map; `means` is how it is shared, `jobs` are those on it in the order they came."""

    uuid: str
    index: int | None = None
    name: str = ""
    node: str | None = None
    means: str = ""
    allocated_milli: int = 0
    jobs: tuple[HolderRow, ...] = ()

    @classmethod
    def _nested(cls) -> dict[str, type[Row]]:
        return {"jobs": HolderRow}


@dataclass(frozen=True, slots=True)
class SlicePlan(Row):
    """What changes the MIG slices of a device: commands in their order, and whether they were run."""

    device: str
    purpose: str = ""
    commands: tuple[str, ...] = ()
    applied: bool = False


@dataclass(frozen=True, slots=True)
class ServerInfo(Row):
    """A server about itself. `mock` says that its devices are described, not real; times are Unix seconds."""

    version: str = ""
    pid: int | None = None
    home: str = ""
    user: str = ""
    node: str = ""
    source: str = ""
    driver_version: str | None = None
    cuda_version: str | None = None
    started_at: float | None = None
    mock: bool = False
    uptime_s: float | None = None
