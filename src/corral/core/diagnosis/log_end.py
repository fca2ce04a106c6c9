"""The end of a log as lines, each with marks that distinguish an error from other printed text.

A job can write anything to its log: any bytes, lines of any length, control characters. The log is cut to a fixed size
first. Every pattern here is anchored and bounded, so that the time is linear in that size.
"""

import re
from dataclasses import dataclass

TAIL_BYTES = 128 * 1024
"""The number of bytes read of the end of a log: more than is kept of the end of a log that was cut."""

MAX_LINES = 1000
_LINE_LIMIT = 1000
_MOST_PREFIXES = 6
_MOST_EXCEPTIONS = 3

_OWN_LINE = "corral: "

NEXT_ATTEMPT = "attempt"
"""The beginning of Corral's own line between two attempts of a job, which share a log. Text before it is of another
attempt.
"""

_CUT = re.compile(r"corral: (\d{1,18}) bytes of output are missing here \(")
"""The beginning of Corral's line where output is missing. Text before it was written long before."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[A-Za-z]|[()][A-Z0-9]|[=>78])")

_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[(?:rank)?\d{1,6}\]: ?",  # torchrun: [rank0]:
        r"\[\d{1,6},\d{1,6}\]<std(?:out|err)>: ?",  # mpirun --tag-output
        r"\([\w .:-]{1,60} ?pid=\d{1,10}(?:, ip=[\d.]{1,20})?\) ?",  # Ray and vLLM: (EngineCore_DP0 pid=6940)
        r"\d\d-\d\d \d\d:\d\d:\d\d \[[\w./]{1,80}:\d{1,6}\] ?",  # vLLM, after ERROR
        r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?\]?:? ",
    )
)
_ERROR_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:ERROR|CRITICAL|FATAL)(?::[\w.]{1,80}:|:? {1,8})",  # the standard library's logging
        r"[EF](?:\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,8}\d{1,10})? [\w./\\:-]{1,200}:\d{1,6}\] ",  # glog, TensorFlow
        r"\[[EF](?:\d{3,4} \d\d:\d\d:\d\d\.\d{1,9})? [\w./]{1,80}:\d{1,6}\] (?:\[[\w ()]{1,80}\] )?",  # PyTorch's c10d
        r" {0,4}what\(\):  ?",  # an uncaught C++ exception
        r"[\w.-]{1,80}:\d{1,10}:\d{1,10} \[\d{1,4}\] (?:[\w./]{1,80}:\d{1,6} )?NCCL WARN ",
    )
)
_EXCEPTION = re.compile(
    # A name as pycuda._driver.Error needs its module: many programs begin a line with "Error:".
    r"(?:(?:[A-Za-z_]\w{0,60}\.){0,10}[A-Za-z_]\w{0,60}(?:Error|Exception|Interrupt|Exit)"
    r"|(?:[A-Za-z_]\w{0,60}\.){1,10}(?:Error|Exception))(?:\(\w{1,60}\))?"
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line without the prefixes of loggers and launchers.

    Attributes:
        exceptions: names of the Python exceptions that the line begins with, without their modules.
        error: whether it is marked as an error: by such a name, or by the logger that wrote it.
    """

    text: str
    exceptions: tuple[str, ...] = ()
    error: bool = False


def lines_of(log_end: bytes) -> list[LogLine]:
    """Return the last lines of the last attempt's log, printable, each cut to a fixed length. Corral's own lines are
    left out.
    """
    cut = log_end[-TAIL_BYTES:]
    if len(log_end) > TAIL_BYTES:
        cut = cut[cut.find(b"\n") + 1 :]
    text = cut.decode(errors="replace").replace("\r", "\n")
    found: list[str] = []
    for line in reversed(text.split("\n")):
        if found and (line.startswith(f"{_OWN_LINE}{NEXT_ATTEMPT} ") or _CUT.match(line)):
            break
        if line.strip() and not line.startswith(_OWN_LINE):
            found.append(line)
        if len(found) == MAX_LINES:
            break
    return [_read(_clean(line)) for line in reversed(found)]


def missing_bytes(log_end: bytes) -> int:
    """Return the number of missing bytes of output, as far as the log's end states it."""
    lines = log_end.decode(errors="replace").split("\n")
    return sum(int(match[1]) for match in map(_CUT.match, lines) if match)


def _clean(line: str) -> str:
    line = _ESCAPES.sub("", line[:_LINE_LIMIT]).replace("\t", " ")
    return line if line.isprintable() else "".join(character for character in line if character.isprintable())


def _read(line: str) -> LogLine:
    error = False
    for _ in range(_MOST_PREFIXES):
        if match := _first_match(_PREFIXES, line):
            line = line[match.end() :]
        elif match := _first_match(_ERROR_PREFIXES, line):
            line, error = line[match.end() :], True
        else:
            break
    exceptions = []
    for _ in range(_MOST_EXCEPTIONS):
        name, colon, rest = line.partition(":")
        if not _EXCEPTION.fullmatch(name):
            break
        exceptions.append(name.rpartition(".")[2])
        line = rest.lstrip()
        if not colon:
            break
    return LogLine(line, tuple(exceptions), error or bool(exceptions))


def _first_match(patterns: tuple[re.Pattern[str], ...], line: str) -> re.Match[str] | None:
    return next((match for pattern in patterns if (match := pattern.match(line))), None)
