"""Files in the directory of a launch by which server and runner exchange the state of its container.

container.json  written by the server before the launch: the container to make, and its user
state.json      written by the runner: its progress
"""

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from corral.core.model.devices.device import FIRST_VENDOR
from corral.core.model.jobs.job import ProcessIdentity
from corral.host.runtimes.process.records.claim import a_process
from corral.host.runtimes.process.records.whole_files import (
    Unreadable,
    a_count,
    a_flag,
    a_text,
    decode_record,
    read_record,
    temporary_beside,
    write_new,
)

_ORDERS, _STATE = "container.json", "state.json"
_ORDERS_LIMIT_BYTES = 64 << 20
_WORDS_LIMIT = 2000
_CODE_LIMIT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class HostUser:
    """The user that runs a job: the numbers of the user and of its groups on this host."""

    uid: int
    gid: int
    groups: list[int]


@dataclass(frozen=True, slots=True)
class OrderedDevice:
    """A GPU for a container: its vendor, its UUID, and its device files if its vendor names them."""

    vendor: str
    uuid: str
    files: list[str]


@dataclass(frozen=True, slots=True)
class RunnerOrders:
    """The orders of a runner.

    Attributes:
        name: the container's name, the same for each attempt to make it.
        body: the body of Docker's "create a container", without the devices.
        host_paths: the host directories that the site lets jobs mount.
        scratch: the job's own directory, which has the same path in the container.
        devices: the GPUs that it gets.
        pull: when the image is fetched: "missing", "always" or "never".
        owner: the job's user, whose credentials for registries count.
        stop_s: the seconds between SIGTERM and SIGKILL.
        notify: the server's socket for notices about changes, and the launch id to send there.
    """

    name: str
    body: dict[str, Any]
    host_paths: list[str]
    scratch: str
    devices: list[OrderedDevice]
    pull: str
    owner: HostUser
    stop_s: float
    notify: tuple[str, str]


class Fault(StrEnum):
    """The cause of a container's failure.

    JOB is the job itself. LASTING: it would fail again in the same way. PASSING: it never began because of a passing
    trouble, such as that of a registry. NODE: this host's Docker did not let it begin for now, or ended it.
    """

    JOB = "job"
    LASTING = "lasting"
    PASSING = "passing"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class RunnerState:
    """The progress of a runner.

    Attributes:
        waits_for: why the container does not begin, or its runner does not see it: a sentence without its full
            stop, or "".
        main: the container's first process on this host; None before it began.
        ended: whether it has ended or will never begin: nothing of it runs in Docker.
        reason: why it failed; "" if only the exit code is known.
        exit_code: its exit code; None before its end.
        fault: the cause of its failure, if it failed.
        stopped: whether it was told to end.
    """

    waits_for: str = ""
    main: ProcessIdentity | None = None
    ended: bool = False
    reason: str = ""
    exit_code: int | None = None
    fault: Fault = Fault.JOB
    stopped: bool = False


class ContainerRecords:
    """The two files of one launch's container. Reading raises OSError if the machine fails."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write_orders(self, orders: RunnerOrders) -> None:
        """Write the runner's orders. Raises OSError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write(_ORDERS, asdict(orders))

    def orders(self) -> RunnerOrders:
        """Read the orders. Raises OSError, and ValueError, TypeError or KeyError if they are invalid."""
        data = read_record(str(self._directory / _ORDERS), _ORDERS_LIMIT_BYTES)
        if data is None:
            raise FileNotFoundError(f"{self._directory / _ORDERS} is missing")
        said = json.loads(data)
        if "device_uuids" in said:  # orders of an earlier version, which knew NVIDIA's GPUs alone
            devices = [OrderedDevice(FIRST_VENDOR, uuid, []) for uuid in said.pop("device_uuids")]
        else:
            devices = [OrderedDevice(**device) for device in said["devices"]]
        owner, notify = HostUser(**said["owner"]), tuple(said["notify"])
        return RunnerOrders(**{**said, "devices": devices, "owner": owner, "notify": notify})

    def write_state(self, state: RunnerState) -> None:
        """Write the runner's progress for the server. Raises OSError."""
        self._write(_STATE, asdict(state))

    def state(self) -> RunnerState:
        """Return the progress of the runner; the initial state if it is unknown or invalid."""
        path = str(self._directory / _STATE)
        try:
            data = read_record(path)
            return RunnerState() if data is None else decode_record(path, data, _decoded)
        except Unreadable:
            return RunnerState()

    def _write(self, name: str, said: dict[str, Any]) -> None:
        path = str(self._directory / name)
        temporary = temporary_beside(path)
        write_new(temporary, json.dumps(said).encode())
        os.rename(temporary, path)


def _decoded(said: Any) -> RunnerState:
    main, code = said["main"], said.get("exit_code")
    return RunnerState(
        _words(said["waits_for"]),
        None if main is None else ProcessIdentity(*a_process(main)),
        a_flag(said["ended"]),
        _words(said["reason"]),
        None if code is None else a_count(code, -_CODE_LIMIT, _CODE_LIMIT),
        Fault(said.get("fault", Fault.JOB)),
        a_flag(said.get("stopped", False)),
    )


def _words(value: Any) -> str:
    """Return a text that can be stored, with bytes that are not UTF-8 as escapes. Raises ValueError."""
    return a_text(value, _WORDS_LIMIT).encode(errors="backslashreplace").decode()
