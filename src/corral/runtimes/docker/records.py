"""What server and runner tell each other of one container, in the directory of its launch.

container.json  written by the server before the launch: what to make, for whom
state.json      written by the runner: how far it is
"""

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from corral.model.job import ProcessIdentity
from corral.runtimes.process.claim import a_process
from corral.runtimes.process.whole_files import (
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
    """As whom a job runs: numbers of its user and groups on this host."""

    uid: int
    gid: int
    groups: list[int]


@dataclass(frozen=True, slots=True)
class OrderedDevice:
    """A GPU: its vendor, its UUID, and its device files where its vendor gives these."""

    vendor: str
    uuid: str
    files: list[str]


@dataclass(frozen=True, slots=True)
class RunnerOrders:
    """All that a runner needs to know.

    Attributes:
        name: of the container, the same for each attempt to make it.
        body: what Docker's "create a container" takes, without the image's devices.
        host_paths: what of the host the site lets jobs see as volumes.
        scratch: the job's own directory, which it sees under the same path.
        devices: the GPUs that it gets.
        pull: when the image is fetched: "missing", "always" or "never".
        owner: the job's user, whose credentials for registries count.
        stop_s: between SIGTERM and SIGKILL.
        notify: the socket at which the server hears that there is news, and of what.
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
    """Whose fault it is that a container failed.

    JOB is the job's own. LASTING: it would fail again in the same way. PASSING: it never began, for something that
    passes, such as a registry in trouble. NODE: this host's Docker did not let it begin for now, or ended it.
    """

    JOB = "job"
    LASTING = "lasting"
    PASSING = "passing"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class RunnerState:
    """How far a runner is.

    Attributes:
        waits_for: what keeps the container from beginning, or its runner from seeing it, a sentence without its full
            stop; "" where nothing does.
        main: the container's first process on this host, None before it began.
        ended: it has ended, or will never begin: Docker has nothing that runs.
        reason: why it failed, where that is known; "" where its exit code is all there is to say.
        exit_code: with which it has ended, None before.
        fault: why it failed, where it did.
        stopped: it was told to end.
    """

    waits_for: str = ""
    main: ProcessIdentity | None = None
    ended: bool = False
    reason: str = ""
    exit_code: int | None = None
    fault: Fault = Fault.JOB
    stopped: bool = False


class ContainerRecords:
    """The two files. Reading raises OSError when the machine is in trouble."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write_orders(self, orders: RunnerOrders) -> None:
        """Tell the runner what to do. Raises OSError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write(_ORDERS, asdict(orders))

    def orders(self) -> RunnerOrders:
        """Raises OSError, and ValueError or TypeError where they make no sense."""
        data = read_record(str(self._directory / _ORDERS), _ORDERS_LIMIT_BYTES)
        if data is None:
            raise FileNotFoundError(f"{self._directory / _ORDERS} is missing")
        said = json.loads(data)
        devices = [OrderedDevice(**device) for device in said["devices"]]
        owner, notify = HostUser(**said["owner"]), tuple(said["notify"])
        return RunnerOrders(**{**said, "devices": devices, "owner": owner, "notify": notify})

    def write_state(self, state: RunnerState) -> None:
        """Tell the server how far it is. Raises OSError."""
        self._write(_STATE, asdict(state))

    def state(self) -> RunnerState:
        """How far the runner is; as at its beginning where that is not known or makes no sense."""
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
    """A text for others to store, with what is no UTF-8 as escapes. Raises ValueError."""
    return a_text(value, _WORDS_LIMIT).encode(errors="backslashreplace").decode()
