"""Bounds for the answers of an agent on another host, which may be hostile: it can harm its own node alone.

An answer that no agent of Corral would give is Refused as a whole. Text is made printable, since names and reasons are
shown in terminals and logs.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.errors import Refused
from corral.core.model.files.tree import MOST_CONTENT_BYTES, is_digest
from corral.core.model.printable import printable
from corral.core.model.runs.launch import LaunchReport, checked_launch_id
from corral.core.ports.images import ImageFacts
from corral.core.ports.node import (
    ExecOutput,
    FileFinding,
    Gathered,
    InputTaken,
    InstallationState,
    LaidOut,
    LogChunk,
    News,
    ProcessFound,
    Readiness,
    Reconciled,
    Rendezvous,
    Reports,
)
from corral.core.preflight.image_config import MOST_CHARACTERS, MOST_ENTRIES, MOST_WORD_CHARACTERS, MOST_WORDS
from corral.host.node.protocol import MAX_MESSAGE, BadFrame, message_in
from corral.trees.text import MOST_IN_PACK, digest_of
from corral.wire import bytes_in

MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""The most bytes of an answer. The largest honest ones are the news of a host with thousands of processes on its GPUs,
and pieces of logs.
"""

MAX_VALUES = 400_000
"""The most values in an answer: a parsed value takes up to 100 times the memory of its text."""

_MAX_TEXT = 128 * 1024
MAX_NAME = 256
MAX_DEVICES = 1024
_MAX_LAUNCHES = 100_000
_MAX_REMARKS = 1000
_MAX_PROCESSES = 100_000
_MAX_AMOUNT = 2**53
_MAX_COUNT = 2**31
_LATEST = 1e11
"""The latest moment in Unix seconds that an agent may name, in the year 5138: it can be shown as a date."""

_NUMBERS = frozenset({int, float, bool})

_SIGNED = frozenset(
    {
        *("numa_node", "temperature_c", "below_slowdown_c", "below_shutdown_c"),
        *("taken_at", "started_at", "at", "read_at", "created_at"),
    }
)
"""Amounts that may be below 0. Moments have limits of their own."""


def read_answer(data: bytes) -> dict[str, Any]:
    """Return the message in a frame, its text made printable. Raises BadFrame for bytes that are none, too many
    values, or values too deep in each other.
    """
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise BadFrame(f"a message has more than {MAX_VALUES} values")
    message = message_in(data)
    # In JSON, control characters are escaped. Most answers have no escape, and all of their text is plain ASCII.
    if b"\\" in data or not data.isascii():
        try:
            message = {_printable(name): _printable(value) for name, value in message.items()}
        except RecursionError:
            raise BadFrame("a message has values too deep in each other") from None
    return message


def check_answer(call: str, arguments: Mapping[str, Any], result: Any) -> None:
    """Refuse an answer to this call that makes no sense."""
    check = _CHECKS.get(call)
    if check is not None and result is not None:
        check(arguments, result)


def _printable(plain: Any) -> Any:
    if isinstance(plain, str):
        return plain if plain.isprintable() else "".join(map(_shown, plain))
    if isinstance(plain, list):
        return [_printable(one) for one in plain]
    if isinstance(plain, dict):
        return {_printable(name): _printable(value) for name, value in plain.items()}
    return plain


def _shown(character: str) -> str:
    return character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1]


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(what)


def check_count(things: Collection[object], most: int, what: str) -> None:
    """Refuse more than `most` things, in words `what` they are."""
    _expect(len(things) <= most, f"{len(things)} {what}, and {most} are the most")


class _FieldNames(dict[type, tuple[str, ...]]):
    """The names of the fields of a class of values; () if it has none, as text and numbers."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        known = dataclasses.is_dataclass(kind)
        made = self[kind] = tuple(field.name for field in dataclasses.fields(kind)) if known else ()
        return made


_FIELDS = _FieldNames()


def check_texts(value: Any, longest: int) -> None:
    """Refuse text in a value that is too long, and in names also text of several lines."""
    if value is None or type(value) in _NUMBERS:
        # Most of what a server hears is readings: it hears many a second.
        return
    if isinstance(value, str):
        if len(value) > longest:
            raise Refused(f"a text of {len(value)} characters, and {longest} are the most")
        if longest <= MAX_NAME and printable(value) != value:
            raise Refused(f"a name is not printable: {printable(value)!r:.80}")
    elif isinstance(value, tuple):
        for one in value:
            check_texts(one, longest)
    elif isinstance(value, Mapping):
        for name, one in value.items():
            check_texts(name, longest)
            check_texts(one, longest)
    else:
        for name in _FIELDS[type(value)]:
            check_texts(getattr(value, name), longest)


def _check_amounts(value: Any, signed: Collection[str] = ()) -> None:
    """Refuse amounts below 0, and amounts that nothing has, in a value and all values within it."""
    for name in _FIELDS[type(value)]:
        one = getattr(value, name)
        if one is None:
            continue
        for amount in one if isinstance(one, tuple) else (one,):
            if type(amount) is int or type(amount) is float:
                if not 0 <= amount <= _MAX_AMOUNT and name not in signed:
                    raise Refused(f"{name} is {amount}")
            else:
                _check_amounts(amount, signed)


def check_moments(*moments: float | None) -> None:
    """Refuse moments in Unix seconds that cannot be shown as dates."""
    for at in moments:
        _expect(at is None or -_LATEST <= at <= _LATEST, f"{at} is no moment")


def check_inventory(node: Node) -> None:
    """Refuse a node that no driver would find."""
    check_count(node.devices, MAX_DEVICES, "devices")
    uuids = [device.uuid for device in node.devices]
    _expect(all(uuids), "a device has no UUID")
    _expect(len(set(uuids)) == len(uuids), "a device is named twice")
    parents = {device.parent_uuid for device in node.devices if device.parent_uuid is not None}
    _expect(parents <= set(uuids), "a slice is of a device that is not there")
    check_texts(node, MAX_NAME)
    _check_amounts(node, signed=_SIGNED)


def check_samples(samples: Iterable[DeviceSample]) -> None:
    """Refuse samples that no driver would give."""
    for sample in samples:
        _expect(not sample.signs, "signs, which a server finds itself")
        check_texts(sample, _MAX_TEXT)
        _check_amounts(sample, signed=_SIGNED)
        check_moments(sample.taken_at, *(process.started_at for process in sample.processes or ()))
        check_moments(*(error.at for error in sample.errors))
        check_moments(None if sample.vitals is None else sample.vitals.read_at)


def _check_news(arguments: Mapping[str, Any], news: News) -> None:
    check_moments(news.now)
    _expect(0 <= news.sequence <= _MAX_AMOUNT, f"the sequence number {news.sequence}")
    check_texts(news.epoch, MAX_NAME)
    if news.node is not None:
        check_inventory(news.node)
    check_count(news.samples, 2 * MAX_DEVICES, "samples")
    check_samples(news.samples)
    check_count(news.launches, _MAX_LAUNCHES, "launches")
    check_count(news.services_lost, MAX_DEVICES, "lost services")
    for launch_id in (*news.launches, *(one for lost in news.services_lost for one in lost.launches)):
        checked_launch_id(launch_id)
    for lost in news.services_lost:
        check_texts(lost, MAX_MESSAGE)


def _check_readiness(arguments: Mapping[str, Any], readiness: Readiness) -> None:
    asked = arguments["uuids"]
    _expect(all(sample.uuid in asked for sample in readiness.samples), "a sample of a device that was not asked for")
    check_count(readiness.samples, len(asked), "samples")
    check_samples(readiness.samples)
    check_texts(readiness.obstacle, MAX_MESSAGE)


def _check_reports(arguments: Mapping[str, Any], answer: Reports) -> None:
    _expect(
        tuple(report.launch_id for report in answer.reports) == tuple(arguments["launch_ids"]),
        "reports of other launches than were asked for",
    )
    check_moments(answer.now)
    for report in answer.reports:
        _check_report(report)


def _check_report(report: LaunchReport) -> None:
    check_moments(report.started_at, report.ended_at, report.saved_at)
    check_texts(report, _MAX_TEXT)
    _expect(report.age_s is None or 0 <= report.age_s <= _LATEST, f"age_s is {report.age_s}")
    for code in (report.exit_code, report.signal):
        _expect(code is None or -_MAX_COUNT <= code < _MAX_COUNT, f"an exit code or a signal is {code}")


def _check_reconciled(arguments: Mapping[str, Any], answer: Reconciled) -> None:
    check_count(answer.remarks, _MAX_REMARKS, "remarks")
    check_texts(answer.remarks, MAX_MESSAGE)
    check_count(answer.unknown, _MAX_LAUNCHES, "unknown launches")
    for launch_id in answer.unknown:
        checked_launch_id(launch_id)


def _check_rendezvous(arguments: Mapping[str, Any], answer: Rendezvous) -> None:
    check_texts((answer.address, answer.secret), MAX_NAME)
    for port in (answer.port, answer.srun_port):
        _expect(0 < port < 2**16, f"{port} is no port")


def _check_log(arguments: Mapping[str, Any], chunk: LogChunk) -> None:
    data = bytes_in(chunk.data, arguments["max_bytes"], field="data")
    end = arguments["offset"] + len(data)
    size = chunk.size_bytes
    _expect(size is None or 0 <= size <= _MAX_AMOUNT, f"the log has {size} bytes")
    _expect(not data or (size is not None and end <= size), "a piece of a log beyond its end")


def _check_output(arguments: Mapping[str, Any], output: ExecOutput) -> None:
    after = arguments["after"]
    _expect(output.sequence in (after, after + 1), f"piece {output.sequence} of an output, after piece {after}")
    for piece in (output.stdout, output.stderr):
        bytes_in(piece, MAX_ANSWER_BYTES, field="data")
    code = output.exit_code
    _expect(code is None or -_MAX_COUNT <= code < _MAX_COUNT, f"the exit code is {code}")
    check_texts(output.message, MAX_MESSAGE)


def _check_taken(_arguments: Mapping[str, Any], taken: InputTaken) -> None:
    # Other calls may have sent more: this one may be a repetition, or only keep a command alive.
    _expect(0 <= taken.offset <= _MAX_AMOUNT, f"{taken.offset} bytes of input are taken")


def _check_start(arguments: Mapping[str, Any], start: int) -> None:
    _expect(0 <= start <= _MAX_AMOUNT, f"the log was written from byte {start} on")


def _check_process(arguments: Mapping[str, Any], found: ProcessFound) -> None:
    _expect(found.identity.pid == arguments["pid"], "another process than was asked for")
    check_count(found.family, _MAX_PROCESSES, "processes")
    check_texts(found, MAX_NAME)
    _expect(all(0 < pid <= _MAX_COUNT for pid in found.family), "a pid that no process has")
    _expect(0 <= found.uid < 2**32, f"the user id {found.uid}")


def _check_findings(arguments: Mapping[str, Any], findings: tuple[FileFinding, ...]) -> None:
    asked = arguments["queries"]
    check_count(findings, len(asked), "findings")
    _expect(all(one.query in asked for one in findings), "a finding about a file that was not asked for")
    for one in findings:
        check_texts(one.facts, _MAX_TEXT)


def _check_image(arguments: Mapping[str, Any], facts: ImageFacts) -> None:
    for things in (facts.variables, facts.labels):
        check_count(things, MOST_ENTRIES, "variables or labels of an image")
        check_texts(things, MOST_CHARACTERS)
    for words in (facts.entrypoint, facts.command):
        check_count(words, MOST_WORDS, "words of an image")
        check_texts(words, MOST_WORD_CHARACTERS)


def _check_lines(arguments: Mapping[str, Any], lines: tuple[str, ...]) -> None:
    check_count(lines, _MAX_REMARKS, "lines")
    check_texts(lines, MAX_MESSAGE)


def _check_received(arguments: Mapping[str, Any], received: int) -> None:
    _expect(0 <= received <= _MAX_AMOUNT, f"{received} bytes are there")


def _check_state(arguments: Mapping[str, Any], state: InstallationState) -> None:
    check_count(state.launches, _MAX_LAUNCHES, "launches")
    check_texts(state, MAX_NAME)


def _check_lacks(arguments: Mapping[str, Any], lacks: tuple[str | None, ...]) -> None:
    _expect(len(lacks) == len(arguments["users"]), "answers about other users than were asked for")
    check_texts(lacks, MAX_MESSAGE)


def _check_missing(arguments: Mapping[str, Any], digests: tuple[str, ...]) -> None:
    check_count(digests, MOST_IN_PACK, "contents")
    _expect(all(map(is_digest, digests)), "a content is not named by its digest")


def _check_laid_out(arguments: Mapping[str, Any], laid_out: LaidOut) -> None:
    _check_amounts(laid_out)


def _check_gathered(arguments: Mapping[str, Any], gathered: Gathered) -> None:
    check_count(gathered.left_out, _MAX_REMARKS, "paths")
    check_texts(gathered, MAX_MESSAGE)
    _expect(gathered.tree is None or is_digest(gathered.tree), "a tree is not named by its digest")
    _expect(0 <= gathered.now <= _LATEST, f"the time is {gathered.now}")


def _check_contents(arguments: Mapping[str, Any], contents: tuple[str, ...]) -> None:
    digests = arguments["digests"]
    check_count(contents, len(digests), "contents")
    for digest, content in zip(digests, contents, strict=False):
        decoded = bytes_in(content, MOST_CONTENT_BYTES, field="contents")
        _expect(digest_of(decoded) == digest, "another content than was asked for")


def _check_words(arguments: Mapping[str, Any], result: Any) -> None:
    check_texts(result, _MAX_TEXT)


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], Any], None]] = {
    "news.since": _check_news,
    "launches.ready": _check_readiness,
    "launches.reconcile": _check_reconciled,
    "launches.rendezvous": _check_rendezvous,
    "launches.reports": _check_reports,
    "logs.read": _check_log,
    "logs.written_since": _check_start,
    "inputs.write": _check_taken,
    "executions.read": _check_output,
    "executions.write": _check_taken,
    "trees.missing": _check_missing,
    "trees.lay_out": _check_laid_out,
    "trees.gathered": _check_gathered,
    "trees.read": _check_contents,
    "host.process": _check_process,
    "host.inspect": _check_findings,
    "host.image": _check_image,
    "host.rescan": _check_lines,
    "host.change_slices": _check_words,
    "host.driver_log": _check_lines,
    "host.test_device": _check_words,
    "accounts.lacks": _check_lacks,
    "installation.state": _check_state,
    "installation.offer": _check_received,
    "installation.write": _check_received,
}
