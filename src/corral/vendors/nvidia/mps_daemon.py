"""The MPS control daemon of one device: start, health, restart and stop.

The daemon belongs to the machine, not to the server: a daemon of an earlier server is found by its pipe directory.
"""

import os
import re
import shutil
import signal
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from corral.core.model.errors import BackendFailed, Refused
from corral.files import read_own_end
from corral.pidfd import send_if
from corral.vendors.nvidia.tools import ToolHung, run_tool

_MULTI_USER = "-multiuser-server"
_SLOTS = b"CORRAL_MPS_SLOTS="
"""The beginning of a variable of a daemon, which shows how it was started."""
_PROGRAM_MAX_BYTES = 64 * 1024 * 1024
_PID_FILE = "nvidia-cuda-mps-control.pid"
_PID_BYTES = 32
_LONGEST_SOCKET = len("/control_privileged")
_SUN_PATH_MAX = 107
_LOG_TAIL_BYTES = 4096
_QUITS_WITHIN_S = 10.0
_DIES_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class MpsPaths:
    """The directories of a daemon for its pipes and its logs."""

    pipe: Path
    log: Path

    @classmethod
    def under(cls, home: Path, uuid: str) -> "MpsPaths":
        """The directories for a device. Raises Refused if the names of the pipes would be too long for a socket."""
        base = home / "mps" / uuid
        length = len(os.fsencode(base / "pipe")) + _LONGEST_SOCKET
        if length > _SUN_PATH_MAX:
            raise Refused(
                f"MPS pipes under {base} would have names of {length} bytes and a socket's may have {_SUN_PATH_MAX}; "
                f"use a home whose path is {length - _SUN_PATH_MAX} bytes shorter"
            )
        return cls(base / "pipe", base / "log")


def program_missing(control: str) -> str | None:
    """The reason why the control program cannot be started here; None if it can."""
    if shutil.which(control) is None:
        return f"{control} is not installed here, or may not be executed; it comes with the NVIDIA driver"
    return None


def multi_user_missing(control: str) -> str | None:
    """The reason why the control program is not known to serve several users at a time; None if it does.

    NVIDIA's program does not list its options, and NVIDIA does not document the version that introduced this option.
    The program file is therefore searched for the option's name.
    """
    path = shutil.which(control)
    if path is None:
        return program_missing(control)
    try:
        with open(path, "rb") as file:
            text = file.read(_PROGRAM_MAX_BYTES)
    except OSError as error:
        return f"{path} cannot be read for its option {_MULTI_USER}: {error.strerror}"
    if _MULTI_USER.encode() not in text:
        return f"{path} has no option {_MULTI_USER}; the one of a newer driver does"
    return None


class MpsState(StrEnum):
    """The state of a daemon. Only RUNNING accepts new clients."""

    RUNNING = "running"
    DOWN = "down"
    HUNG = "hung"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class MpsHealth:
    """The daemon's state, its pid if it runs, and the driver's message. A new pid means that clients were lost."""

    state: MpsState
    pid: int | None
    detail: str = ""


class MpsDefaults(NamedTuple):
    """The limits that a daemon sets to each client: one of so many equal slots, and its memory. A client can only lower
    them.
    """

    slots: int
    memory_mib: int


class MpsDaemon:
    """`nvidia-cuda-mps-control` for one device. Calls may be repeated, from any thread, and have a time limit.

    `defaults` are set before its first client; `timeout_s` is the limit for each answer of the program.
    """

    def __init__(
        self,
        uuid: str,
        paths: MpsPaths,
        *,
        control: str = "nvidia-cuda-mps-control",
        multi_user: bool = False,
        defaults: MpsDefaults | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._uuid = uuid
        self._paths = paths
        self._control = control
        self._multi_user = multi_user
        self._defaults = defaults
        self._timeout_s = timeout_s
        self._changing = threading.RLock()

    def start(self) -> None:
        """Make sure that the daemon runs and is healthy. If it must be restarted, all its clients are lost.

        Raises BackendFailed with the last line of its log if it does not start.
        """
        with self._changing:
            self._start()

    def _start(self) -> None:
        health = self.health()
        if health.state is MpsState.RUNNING:
            return
        if health.state is not MpsState.DOWN:
            self.stop()
        for directory in (self._paths.pipe, self._paths.log):
            _make_for_clients(directory)
        mode = [_MULTI_USER] if self._multi_user else []
        try:
            run_tool([self._control, *mode, "-d"], timeout_s=self._timeout_s, env=self._environment(), umask=0)
        except BackendFailed as failure:
            raise BackendFailed(f"MPS on {self._uuid} did not start: {failure}{self._last_words()}") from failure
        health = self.health()
        if health.state is not MpsState.RUNNING:
            detail = health.detail or "it went away again"
            raise BackendFailed(f"MPS on {self._uuid} did not stay up: {detail}{self._last_words()}")
        if self._defaults is not None:
            self._limit_clients(self._defaults)

    def _limit_clients(self, defaults: MpsDefaults) -> None:
        """Set the limits of all clients to come. Raises BackendFailed, and stops the daemon, if they are not taken."""
        percent, memory = 100 // defaults.slots, f"{defaults.memory_mib}M"
        try:
            self._say(f"set_default_active_thread_percentage {percent}")
            self._say(f"set_default_device_pinned_mem_limit 0 {memory}")
            taken = (
                self._say("get_default_active_thread_percentage"),
                self._say("get_default_device_pinned_mem_limit 0"),
            )
        except BackendFailed:
            self._stop()
            raise
        if _number(taken[0]) != percent or _number(taken[1]) is None:
            self._stop()
            told = " and ".join(repr(words.strip()) for words in taken)
            raise BackendFailed(
                f"MPS on {self._uuid} does not take {percent} % and {memory} for each client: it says {told}"
            )

    def health(self) -> MpsHealth:
        """The health of the daemon and the servers that it started. A server at fault makes the daemon FAULT."""
        pid = self.pid()
        if pid is None:
            return MpsHealth(MpsState.DOWN, None)
        try:
            for server in self._servers():
                status = self._say(f"get_server_status {server}")
                if "FAULT" in status.upper():
                    return MpsHealth(
                        MpsState.FAULT, pid, f"a client's fault ended MPS server {server}: {status.strip()}"
                    )
        except ToolHung as hung:
            return MpsHealth(MpsState.HUNG, pid, str(hung))
        except BackendFailed as failure:
            return MpsHealth(MpsState.DOWN, None, str(failure))
        return MpsHealth(MpsState.RUNNING, pid)

    def slots(self) -> int | None:
        """The equal slots to which clients are held: by the start of the daemon if it runs, else by the settings."""
        pid = self.pid()
        if pid is None:
            return None if self._defaults is None else self._defaults.slots
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return None
        found = [entry.removeprefix(_SLOTS) for entry in environment if entry.startswith(_SLOTS)]
        return int(found[0]) if found else None

    def serves_many(self) -> bool:
        """Whether the daemon serves several users: by the options of its start if it runs, else by the settings."""
        pid = self.pid()
        if pid is None or not self._multi_user:
            return self._multi_user
        try:
            return _MULTI_USER.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False

    def stop(self) -> None:
        """Ask the daemon to quit. If it does not, kill it and its servers. Raises BackendFailed if that fails."""
        with self._changing:
            self._stop()

    def _stop(self) -> None:
        pid = self.pid()
        if pid is None:
            return
        servers: list[int] = []
        try:
            servers = self._servers()
            self._say("quit")
        except BackendFailed:
            pass  # a daemon that does not answer is killed below
        if self._gone(pid, _QUITS_WITHIN_S):
            return
        for server in servers:
            send_if(server, signal.SIGKILL, partial(_is_child_of, pid, server))
        send_if(pid, signal.SIGKILL, partial(self._is_ours, pid))
        if not self._gone(pid, _DIES_WITHIN_S):
            raise BackendFailed(f"MPS on {self._uuid} (process {pid}) cannot be killed; the device may need a reset")

    def _servers(self) -> list[int]:
        return [int(line) for line in self._say("get_server_list").split() if line.isdigit()]

    def _say(self, command: str) -> str:
        return run_tool([self._control], stdin=f"{command}\n", timeout_s=self._timeout_s, env=self._environment())

    def _environment(self) -> dict[str, str]:
        marked = {} if self._defaults is None else {_SLOTS.decode().rstrip("="): str(self._defaults.slots)}
        return {
            **os.environ,
            **marked,
            "CUDA_VISIBLE_DEVICES": self._uuid,
            "CUDA_MPS_PIPE_DIRECTORY": str(self._paths.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self._paths.log),
        }

    def pid(self) -> int | None:
        """The pid of the control daemon; None if it is not running."""
        try:
            pid = int(read_own_end(self._paths.pipe / _PID_FILE, _PID_BYTES))
        except (OSError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    def _is_ours(self, pid: int) -> bool:
        """Whether this server's user started the process for this pipe directory.

        The pid alone proves nothing: it may have been reused. Clients can write next to the pid file and name the same
        directory.
        """
        try:
            # Another user can build an environment whose reading never ends: check the user first.
            if _users_of(pid) != {os.geteuid()}:
                return False
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return b"CUDA_MPS_PIPE_DIRECTORY=" + os.fsencode(self._paths.pipe) in environment

    def _gone(self, pid: int, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self._is_ours(pid):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def _last_words(self) -> str:
        try:
            text = read_own_end(self._paths.log / "control.log", _LOG_TAIL_BYTES).decode(errors="replace")
        except OSError:
            return ""
        lines = text.split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f" (its log ends: {last})" if last else ""


def _number(words: str) -> float | None:
    """The first number in an answer; None if there is none."""
    found = re.search(r"\d+(\.\d+)?", words)
    return None if found is None else float(found[0])


def _users_of(pid: int) -> set[int]:
    """The user ids of a process. In a setuid-root program, not all of them are root's."""
    lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    return {int(uid) for line in lines if line.startswith(b"Uid:") for uid in line.split()[1:]}


def _is_child_of(parent: int, pid: int) -> bool:
    return _parent_of(pid) == parent


def _parent_of(pid: int) -> int | None:
    try:
        # The name before this field stands in parentheses and may contain anything.
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return None


def _make_for_clients(directory: Path) -> None:
    """Make a directory. If the daemon runs as root, clients of every user can enter it: servers log as their users."""
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        for above in (directory.parent, directory.parent.parent):
            above.chmod(0o755)
        directory.chmod(0o1777)
