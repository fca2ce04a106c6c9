"""Finds the new lines of a container's log by their times. Pure."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ", re.ASCII)


MOST_BYTES_OF_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position in a log: the time of the last line read, and the number of lines read of that time. "" is the
    beginning.
    """

    stamp: str = ""
    lines: int = 0


def new_lines(blocks: Iterable[bytes], position: LogPosition, *, whole: bool) -> Iterator[tuple[bytes, LogPosition]]:
    """Yield the new part of each block after `position`, with the position behind it.

    `blocks` are the API server's text of a log with times, from anywhere before `position` on. The last line counts
    only if it is complete, or if the log is `whole`: its container has ended. A line without a time is not the
    container's: a kubelet writes it into a log if it cannot go on ("rpc error: ... No such container").
    """
    seen_of_stamp = 0
    here, taking, within_line = position, False, False
    for lines in _lines(blocks, with_rest=whole):
        piece = bytearray()
        for line in lines:
            match = None if within_line else _STAMP.match(line)
            if match is not None:
                stamp = _comparable(match)
                seen_of_stamp = seen_of_stamp + 1 if stamp == position.stamp else 0
                taking = stamp > position.stamp or (stamp == position.stamp and seen_of_stamp > position.lines)
                if taking:
                    here = LogPosition(stamp, here.lines + 1 if stamp == here.stamp else 1)
            if taking and (match is not None or within_line):
                piece += line if match is None else line[match.end() :]
            within_line = not line.endswith(b"\n") and (match is not None or within_line)
        if piece:
            yield bytes(piece), here


def _comparable(match: re.Match[bytes]) -> str:
    """Return the time in UTC, as text that sorts by time."""
    second, zone = match[1].decode(), match[3].decode()
    if zone != "Z":
        with suppress(ValueError, OverflowError):
            second = datetime.fromisoformat(second + zone).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{(match[2] or b'').decode():0<9}"


def _lines(blocks: Iterable[bytes], *, with_rest: bool) -> Iterator[list[bytes]]:
    """Yield for each block the lines that end in it. A very long line comes in pieces; only the first piece has a
    time.
    """
    rest = b""
    for block in blocks:
        *ended, rest = (rest + block).split(b"\n")
        lines = [line + b"\n" for line in ended]
        if len(rest) >= MOST_BYTES_OF_LINE:
            lines.append(rest)
            rest = b""
        yield lines
    if rest and with_rest:
        yield [rest]
