"""The directory of one launch: what server and supervisor tell each other, in files that outlive both.

    spec.jsonl  written by the server before it asks for the launch: a line for the supervisor, a line for the job
    claim       who may decide about this launch: a supervisor, or a server that declares it lost; never both. The
                supervisor adds a line once the program runs
    stop        written by the server: end the job, and why
    exit        written by the supervisor as its last act

Every file appears whole: it is linked or renamed into place, or a line of it is read as absent while it does not parse.
The claim and the exit are on disk before anything follows from them. `spec.jsonl` and the line that the program runs
are not flushed: only a crash of the whole machine loses them, and after one nothing runs that they could describe.
"""

import json
import os
import time
from typing import Any, NamedTuple

from . import roll
from .orders import Command, Orders, decode, decode_command, decode_orders, encode
from .procfs import ProcessIdentity, read_file

# One block, written while there is room, so that a disk which fills up meanwhile cannot swallow the exit code.
_EXIT_ROOM_BYTES = 4096
_BLANK = b" " * _EXIT_ROOM_BYTES
MESSAGE_LIMIT = 1000
ROLL = "claims"
"""The roll, in the directory above the one that the launches are in."""

_SPEC, _CLAIM, _STOP, _EXIT, _EXIT_ROOM = "spec.jsonl", "claim", "stop", "exit", "exit.room"


class Claim(NamedTuple):
    """Who took the launch: the supervisor `holder`, or nobody because it was declared lost.

    `ran` without a holder: a supervisor had claimed it, and the record of that was removed.
    """

    claimed_at: float
    holder: ProcessIdentity | None
    declared_lost: bool = False
    message: str = ""
    ran: bool = False


class Started(NamedTuple):
    """The job's main process, and when its program was running by the supervisor's clock."""

    process: ProcessIdentity
    started_at: float


class Exit(NamedTuple):
    """How a launch ended.

    `exit_code` is 128+N on signal N, and None when nothing was run. `reason` is None for a job that ended by
    itself, else "timed_out", "exec_failed", "launch_failed", "supervisor_failed" or what `stop` was given.
    `ended_at` is `started_at` plus the time that passed, so a wall clock that jumps does not change a duration.
    """

    exit_code: int | None
    signal: int | None
    reason: str | None
    message: str
    started_at: float | None
    ended_at: float


def _write_new(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _read_json(path: str, line: int = 0) -> dict[str, Any] | None:
    """The object in a line of a file; None when it is not there, or was torn by a crash of the machine."""
    try:
        data = decode(read_file(path).split(b"\n")[line].decode())
    except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
        return None
    return data if isinstance(data, dict) else None


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# Written out by hand where a supervisor waits for its job afterwards: the encoder would cost each one 150 KiB.


def _encode_process(process: ProcessIdentity) -> str:
    return f'{{"pid": {process.pid}, "start_ticks": {process.start_ticks}, "boot_id": "{process.boot_id}"}}'


def _encode_claim(claim: Claim) -> bytes:
    holder = _encode_process(claim.holder) if claim.holder else "null"
    lost, ran = ("true" if flag else "false" for flag in (claim.declared_lost, claim.ran))
    message = json.dumps(claim.message) if claim.message else '""'
    return (
        f'{{"claimed_at": {claim.claimed_at}, "holder": {holder}, '
        f'"declared_lost": {lost}, "message": {message}, "ran": {ran}}}'
    ).encode()


def _encode_started(started: Started) -> bytes:
    return f'\n{{"process": {_encode_process(started.process)}, "started_at": {started.started_at}}}'.encode()


def _encode_exit(exit_: Exit) -> bytes:
    return json.dumps(exit_._asdict()).encode()


class LaunchRecords:
    """The files of one launch. Every method may raise OSError when the disk does."""

    __slots__ = ("directory",)

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _temporary(self, name: str) -> str:
        return f"{self.directory}/{name}.{os.getpid()}.{time.monotonic_ns()}"

    def make_directory(self) -> bool:
        """False when it was there already."""
        try:
            os.mkdir(self.directory, 0o700)
        except FileExistsError:
            return False
        except FileNotFoundError:
            # Somebody removed the directory of all launches under the running server.
            os.makedirs(self.directory, 0o700)
        return True

    def write_spec(self, orders: Orders, command: Command) -> None:
        temporary = self._temporary("spec")
        _write_new(temporary, encode(orders, command).encode())
        os.rename(temporary, self._path(_SPEC))

    def read_spec(self) -> tuple[Orders, Command]:
        """Raises OSError when there is none, ValueError or TypeError when it makes no sense."""
        text = read_file(self._path(_SPEC)).decode()
        return decode_orders(text), decode_command(text)

    def take_claim(self, claim: Claim) -> bool:
        """Become the one that decides about this launch, durably; False when another has been before.

        The link is what makes it exclusive, and it comes before the flush: one flush then covers the contents and
        the name. A crash of the machine in between may leave an empty claim, which counts as taken.
        """
        temporary = self._temporary("claim")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, _encode_claim(claim))
            try:
                os.link(temporary, self._path(_CLAIM))
            except FileExistsError:
                return False
            os.fsync(fd)
            _sync_directory(self.directory)
            _sync_directory(os.path.dirname(self.directory))
            return True
        finally:
            os.close(fd)
            os.unlink(temporary)

    def amend_claim(self, claim: Claim) -> None:
        """Say otherwise what a claim of one's own says, durably."""
        temporary = self._temporary("claim")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, _encode_claim(claim))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, self._path(_CLAIM))
        _sync_directory(self.directory)

    def is_claimed(self) -> bool:
        return os.path.lexists(self._path(_CLAIM))

    def read_claim(self) -> Claim | None:
        """Who claimed the launch. A claim torn by a crash of the machine is one of a process that is gone."""
        data = _read_json(self._path(_CLAIM))
        if data is None:
            return Claim(0.0, None, message="the claim is unreadable") if self.is_claimed() else None
        holder = data["holder"]
        return Claim(
            data["claimed_at"],
            ProcessIdentity(**holder) if holder else None,
            data["declared_lost"],
            data["message"],
            data.get("ran", False),
        )

    def enter_roll(self) -> None:
        """Say outside of this directory, too, that the launch was claimed."""
        home, name = os.path.dirname(os.path.dirname(self.directory)), os.path.basename(self.directory)
        roll.enter(f"{home}/{ROLL}", name)

    def request_stop(self, reason: str) -> None:
        temporary = self._temporary("stop")
        _write_new(temporary, json.dumps({"reason": reason}).encode())
        os.rename(temporary, self._path(_STOP))

    def stop_reason(self) -> str | None:
        data = _read_json(self._path(_STOP))
        return data["reason"] if data else None

    def write_started(self, started: Started) -> None:
        fd = os.open(self._path(_CLAIM), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(fd, _encode_started(started))
        finally:
            os.close(fd)

    def read_started(self) -> Started | None:
        data = _read_json(self._path(_CLAIM), line=1)
        return Started(ProcessIdentity(**data["process"]), data["started_at"]) if data else None

    def reserve_exit(self) -> None:
        """Take the room for the exit record now, while a full disk can still refuse the launch."""
        _write_new(self._path(_EXIT_ROOM), _BLANK)

    def write_exit(self, exit_: Exit) -> None:
        """Record the end, durably, in the room that was reserved."""
        data = _encode_exit(exit_)
        fd = os.open(self._path(_EXIT_ROOM), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, data.ljust(_EXIT_ROOM_BYTES))
            os.rename(self._path(_EXIT_ROOM), self._path(_EXIT))
            os.fsync(fd)
            _sync_directory(self.directory)
        finally:
            os.close(fd)

    def read_exit(self) -> Exit | None:
        data = _read_json(self._path(_EXIT))
        return Exit(**data) if data else None
