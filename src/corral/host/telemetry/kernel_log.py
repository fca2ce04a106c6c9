"""Reads new lines of the kernel's log: only those that the kernel itself has written, never those of a process."""

import json
import logging
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Protocol

logger = logging.getLogger(__name__)

KMSG = Path("/dev/kmsg")
_HOSTS_PROCESSES = 0xEFFFFFFC
"""The number of the namespace of processes with which the kernel begins."""

_MOST_BYTES = 8192
"""More than the longest record of the kernel, with its escaped bytes."""
_MOST_AT_ONCE = 4096
"""The most records that one call takes. A flood of records must not delay the sampling."""
_KERNEL = 0
"""The facility of the kernel's own records. The kernel gives another one to whatever a process writes to its log."""
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


class KernelLog(Protocol):
    """New lines of the kernel's log."""

    def lines(self) -> tuple[str, ...] | None:
        """Return the messages since the last call, oldest first; None if no more will come. Never waits."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


def open_kernel_log() -> KernelLog | None:
    """Return the kernel's log from now on, by its own file or by the journal; None if this user may read neither.

    Also None in a container with processes of its own: the numbers of processes in the log are the host's.
    """
    if os.stat("/proc/self/ns/pid").st_ino != _HOSTS_PROCESSES:
        return None
    with suppress(OSError):
        return KmsgLog(KMSG)
    command = shutil.which("journalctl")
    return None if command is None else JournalLog(command)


class KmsgLog:
    """The log by `/dev/kmsg`, which returns one record at each read, and escapes bytes that are not printable.

    So a record is never taken for two, whatever is in its text.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file cannot be opened, for which the kernel may demand CAP_SYSLOG."""
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._fd, 0, os.SEEK_END)

    def lines(self) -> tuple[str, ...]:
        """Return the messages of the kernel since the last call, oldest first."""
        found = []
        for _ in range(_MOST_AT_ONCE):
            try:
                record = os.read(self._fd, _MOST_BYTES)
            except BlockingIOError:
                break
            except OSError:
                # The next record was overwritten before it was read. The next read returns the oldest that is left.
                continue
            if not record:
                break
            if (message := kernel_message(record.decode(errors="replace"))) is not None:
                found.append(message)
        return tuple(found)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def kernel_message(record: str) -> str | None:
    """Return the message of a record of /dev/kmsg, None if the kernel did not write it, or it is a part of a record.

    A record is `priority,sequence,time,flags[,more];message`, then lines that begin with a space.
    """
    prefix, separator, rest = record.partition(";")
    fields = prefix.split(",")
    if not separator or len(fields) < 4 or not fields[0].isdigit():
        return None
    if int(fields[0]) >> 3 != _KERNEL or fields[3] not in ("-", "c"):
        return None
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), rest.split("\n", 1)[0])


class JournalLog:
    """The log by the journal, which a process follows. It needs the right to read the journal."""

    def __init__(self, command: str) -> None:
        self._rest = b""
        self._process = subprocess.Popen(
            [command, "--dmesg", "--follow", "--lines=0", "--output=json", "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._fd = self._process.stdout.fileno()
        os.set_blocking(self._fd, False)

    def lines(self) -> tuple[str, ...] | None:
        """Return the messages of the kernel since the last call; None once the process has ended."""
        with suppress(BlockingIOError):
            read = os.read(self._fd, _MOST_BYTES * 64)
            if not read:
                return None
            self._rest += read
        *entries, self._rest = self._rest.split(b"\n")
        return tuple(message for entry in entries if (message := journal_message(entry)) is not None)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def journal_message(entry: bytes) -> str | None:
    """Return the message of an entry of the journal, None if the kernel did not write it.

    No process can set a field with an underscore. The kernel's log also has what processes wrote to it, under another
    facility.
    """
    try:
        fields = json.loads(entry)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("_TRANSPORT") != "kernel" or fields.get("SYSLOG_FACILITY") != "0":
        return None
    message = fields.get("MESSAGE")
    return message if isinstance(message, str) else None
