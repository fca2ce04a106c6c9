"""The directory of one launch: files by which server and supervisor communicate, which survive both.

  spec.jsonl  written by the server before it asks for the launch: a line for the supervisor, a line for the job
  claim       the side that the launch belongs to, and its running program: see `claim`
  stop        written by the server: end the job, and why
  limit       written by the server: the time limit that replaces the one in spec.jsonl
  exit        written by the supervisor as its last act

Every file appears whole: it is linked or renamed into place, or its directory is not known to others yet, or a line of
it that does not parse counts as absent.

The claim and the exit are on disk before anything follows from them. `spec.jsonl` and the line that the program runs
are not flushed: only a crash of the whole machine loses them, and after that nothing runs that they could describe.
"""

import errno
import json
import os
import stat
from typing import Any, NamedTuple

from corral.host.runtimes.process.records.claim import MESSAGE_LIMIT, ClaimFile
from corral.host.runtimes.process.records.whole_files import (
    Unreadable,
    a_count,
    a_flag,
    a_moment,
    a_text,
    decode_record,
    read_record,
    temporary_beside,
    write_new,
)
from corral.host.runtimes.process.supervisor_orders import Command, Orders, decode_command, encode

_REASON_LIMIT = 100
_UID_LIMIT = (1 << 32) - 1
# The limit is far above the size of any program that the kernel can execute, even with JSON escapes.
_SPEC_LIMIT_BYTES = 64 * 1024 * 1024
CLAIMED_LIST = "claims"
"""The name of the list of claimed launches, in the directory above that of the launches."""

_SPEC, _STOP, _LIMIT, _EXIT = "spec.jsonl", "stop", "limit", "exit"


class Exit(NamedTuple):
    """The end of a launch.

    `exit_code` is 128+N on signal N, and None if nothing was run. `reason` is None for a job that ended by itself.
    Otherwise it is "timed_out", "exec_failed", "launch_failed", "supervisor_failed" or the reason given to `stop`.
    `ended_at` is `started_at` plus the time that passed, so a wall clock that jumps does not change a duration.
    """

    exit_code: int | None
    signal: int | None
    reason: str | None
    message: str
    started_at: float | None
    ended_at: float


def _decode_exit(data: Any) -> Exit:
    exit_ = Exit(
        None if data["exit_code"] is None else a_count(data["exit_code"], 0, 255),
        None if data["signal"] is None else a_count(data["signal"], 1, 64),
        None if data["reason"] is None else a_text(data["reason"], _REASON_LIMIT),
        a_text(data["message"], MESSAGE_LIMIT),
        None if data["started_at"] is None else a_moment(data["started_at"]),
        a_moment(data["ended_at"]),
    )
    if exit_.started_at is not None and exit_.ended_at < exit_.started_at:
        raise ValueError("it ends before it begins")
    return exit_


def _checked_orders(data: Any) -> Orders:
    orders = Orders(*data)
    a_count(orders.uid, -1, _UID_LIMIT)
    a_flag(orders.wrapped)
    if orders.cgroup is not None and "\0" in a_text(orders.cgroup, os.pathconf("/", "PC_PATH_MAX")):
        raise ValueError("no path")
    return orders


def _decode_limit(data: Any) -> float:
    # The bound is that of a time: a job that can write this file only harms itself, and the server ends it late at
    # worst.
    return a_moment(data["time_limit_s"])


class LaunchRecords:
    """The files of one launch. Every method may raise OSError if the disk does."""

    __slots__ = ("claim", "directory")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.claim = ClaimFile(directory)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def make_directory(self) -> bool:
        """Make the directory. Return False if it existed already."""
        try:
            os.mkdir(self.directory, 0o700)
        except FileExistsError:
            if stat.S_ISDIR(os.lstat(self.directory).st_mode):
                return False
            # The entry was not created by a launch here, and it blocks the launch.
            os.unlink(self.directory)
            os.mkdir(self.directory, 0o700)
        except FileNotFoundError:
            # The directory of all launches was removed while the server ran.
            os.makedirs(self.directory, 0o700)
        return True

    def write_spec(self, orders: Orders, command: Command, *, unseen: bool = False) -> None:
        """Write the file in one step, unless the directory is `unseen`: no supervisor was asked yet to look into it."""
        path, data = self._path(_SPEC), encode(orders, command).encode()
        if unseen:
            write_new(path, data)
            return
        temporary = temporary_beside(path)
        write_new(temporary, data)
        os.rename(temporary, path)

    def read_command(self) -> Command:
        """Return the second line. Raises OSError if it is missing, ValueError or TypeError if it is invalid."""
        return decode_command(self._spec().decode())

    def read_orders(self) -> Orders:
        """Return the first line, with the fields that a server relies on checked. Raises OSError if it is missing, or
        Unreadable.
        """
        return decode_record(self._path(_SPEC), self._spec().partition(b"\n")[0], _checked_orders)

    def _spec(self) -> bytes:
        data = read_record(self._path(_SPEC), _SPEC_LIMIT_BYTES)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path(_SPEC))
        return data

    def request_stop(self, reason: str) -> None:
        temporary = temporary_beside(self._path(_STOP))
        write_new(temporary, json.dumps({"reason": reason}).encode())
        os.rename(temporary, self._path(_STOP))

    def set_time_limit(self, time_limit_s: float) -> None:
        temporary = temporary_beside(self._path(_LIMIT))
        write_new(temporary, json.dumps({"time_limit_s": time_limit_s}).encode())
        os.rename(temporary, self._path(_LIMIT))

    def new_time_limit_s(self) -> float | None:
        """Return the time limit that replaces the first; None if there is none, or it is invalid."""
        path = self._path(_LIMIT)
        try:
            data = read_record(path)
            return None if data is None else decode_record(path, data, _decode_limit)
        except Unreadable:
            return None

    def read_exit(self) -> Exit | None:
        """Return the end; None while it is not recorded, and for an invalid record: see `exit_fault`."""
        try:
            return self._exit()
        except Unreadable:
            return None

    def exit_fault(self) -> str:
        """Return the fault of the exit record, "" if it has none."""
        try:
            self._exit()
        except Unreadable as error:
            return f"its record {error}"
        return ""

    def _exit(self) -> Exit | None:
        path = self._path(_EXIT)
        data = read_record(path)
        return None if data is None else decode_record(path, data, _decode_exit)
