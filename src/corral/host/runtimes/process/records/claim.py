"""The claim of a launch decides which side it belongs to: a supervisor, or a server that declares it lost; never both.

The file's first line names the side, and is on disk before anything follows from it. The supervisor adds a line once
the program runs.
"""

import json
import os
from typing import Any, NamedTuple

from corral.host.runtimes.process.procfs import LocalProcess
from corral.host.runtimes.process.records.whole_files import (
    Unreadable,
    a_count,
    a_flag,
    a_moment,
    a_text,
    decode_record,
    read_record,
    sync_directory,
    temporary_beside,
    write_all,
)

MESSAGE_LIMIT = 1000
_PID_LIMIT = 1 << 22
_TICKS_LIMIT = 1 << 63
_BOOT_ID_LIMIT = 64


class Claim(NamedTuple):
    """The side that took the launch: the supervisor `holder`, or none because it was declared lost.

    `ran` without a holder means that a supervisor had claimed it, and its record was removed or is invalid (`torn`).
    Then `message` says what was found instead.
    """

    claimed_at: float
    holder: LocalProcess | None
    declared_lost: bool = False
    message: str = ""
    ran: bool = False
    torn: bool = False


class Started(NamedTuple):
    """The job's main process, and when its program was running by the supervisor's clock."""

    process: LocalProcess
    started_at: float


def _encode_claim(claim: Claim) -> bytes:
    said = claim._asdict() | {"holder": claim.holder and claim.holder._asdict()}
    del said["torn"]
    return json.dumps(said).encode()


def a_process(data: Any) -> LocalProcess:
    """Decode a process of a record. Raises LookupError, TypeError or ValueError if it is invalid."""
    return LocalProcess(
        a_count(data["pid"], 1, _PID_LIMIT),
        a_count(data["start_ticks"], 0, _TICKS_LIMIT),
        a_text(data["boot_id"], _BOOT_ID_LIMIT),
    )


def _decode_claim(data: Any) -> Claim:
    claim = Claim(
        a_moment(data["claimed_at"]),
        None if data["holder"] is None else a_process(data["holder"]),
        a_flag(data["declared_lost"]),
        a_text(data["message"], MESSAGE_LIMIT),
        a_flag(data.get("ran", False)),
    )
    if (claim.holder is not None) + claim.declared_lost + claim.ran != 1:
        raise ValueError("it says nothing, or two things at once")
    return claim


def _decode_started(data: Any) -> Started:
    return Started(a_process(data["process"]), a_moment(data["started_at"]))


class ClaimFile:
    """The claim in the directory of one launch. Every method may raise OSError if the disk does."""

    __slots__ = ("_directory", "_path")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = f"{directory}/claim"

    def take(self, claim: Claim) -> bool:
        """Take the claim of this launch durably. Return False if it was taken before.

        The link makes the claim exclusive, and it comes before the flush: one flush then covers the contents and the
        name. A crash of the machine in between may leave an empty claim, which counts as taken.
        """
        temporary = temporary_beside(self._path)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, _encode_claim(claim))
            try:
                os.link(temporary, self._path)
            except FileExistsError:
                return False
            os.fsync(fd)
            sync_directory(self._directory)
            sync_directory(os.path.dirname(self._directory))
            return True
        finally:
            os.close(fd)
            os.unlink(temporary)

    def amend(self, claim: Claim) -> None:
        """Replace the text of a claim that the caller has taken, durably."""
        temporary = temporary_beside(self._path)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, _encode_claim(claim))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, self._path)
        sync_directory(self._directory)

    def is_taken(self) -> bool:
        return os.path.lexists(self._path)

    def read(self) -> Claim | None:
        """Read the claim. An invalid claim, as after a crash of the machine, is `torn`."""
        try:
            data = read_record(self._path)
            if data is None:
                return None
            return decode_record(self._path, data.partition(b"\n")[0], _decode_claim)
        except Unreadable as error:
            return torn(f"its record {error}")

    def read_started(self) -> Started | None:
        """Return the line that the supervisor added; None if it is missing or invalid."""
        try:
            lines = (read_record(self._path) or b"").split(b"\n", 2)
            return decode_record(self._path, lines[1], _decode_started) if lines[1:] else None
        except Unreadable:
            return None


def torn(message: str) -> Claim:
    """Return a claim with an unknown holder, whose launch may have run."""
    return Claim(0.0, None, message=message[:MESSAGE_LIMIT], ran=True, torn=True)
