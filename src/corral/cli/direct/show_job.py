"""`corral show`: everything about one job."""

from __future__ import annotations

import shlex
import time
from collections import Counter

from corral.cli.direct.named_job import job_meant
from corral.cli.direct.rows import row_of, rows_of
from corral.cli.screen import painted, print_json, room, wrapped, write_painted
from corral.cli.tables.job_rows import job_lines, needs_places
from corral.cli.tables.text_table import TextTable
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport, job_path
from corral.core.model.errors import CorralError, NotFound
from corral.core.model.jobs.array_indices import named_elements
from corral.core.model.jobs.named_values import named_values
from corral.core.model.printable import printable
from corral.core.model.runs.exit_code import exit_code_in_words
from corral.core.model.units import (
    MILLI_PER_DEVICE,
    count_of,
    format_bytes,
    format_duration,
    format_memory,
    format_share,
)
from corral.formatting.job_words import PHASE_STYLES, places_of
from corral.formatting.times import start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from corral.cli.commands import looking
    from corral.client import (
        AttemptRow,
        ExecutedCommand,
        Explanation,
        GpuMonitoring,
        GrantedDevice,
        JobDetail,
        JobUse,
        MeasuredRange,
        MeasuredUtilization,
        MemberRow,
    )

    Labelled = tuple[str, Sequence[str] | TextTable | None]
    """A label, and what stands beside it: texts, each on lines of its own, or a table."""

LABEL_COLUMNS = 11
MOST_LINES = 64
"""The most devices, members or elements that are listed for a person. JSON has all of them."""

MOST_COMMANDS = 10
"""The most commands run inside the job that are listed for a person, the newest."""

MOST_TEXT = 4_000
"""The most characters of a command that are shown to a person."""

LIMITED = ("memory", "compute", "cpus", "host_memory")
"""The resources that a job may be limited to: memory and compute of its devices, CPUs and memory of the host."""


def show_job(given: looking.ShowCommand) -> int:
    """Print everything about a job, or a summary of an array's elements. Return the exit code."""
    transport = Transport(find_address())
    job_id = job_meant(transport, given.job_id)
    try:
        answer = transport.get(job_path(job_id))
    except NotFound:
        elements = _elements(transport, job_id) if job_id else ()
        if not elements:
            raise
        _show_array(transport, job_id, elements, json=given.json)
        return 0
    if given.json:
        print_json(answer)
        return 0
    detail = row_of("JobDetail", answer)
    explanation = _explained(transport, detail)
    memory = _memory_before_its_end(detail, explanation)
    write_painted(*detail_lines(detail, explanation, time.time(), room(), memory))
    return 0


def _elements(transport: Transport, named: str) -> list[dict[str, Any]]:
    """The elements of an array, or those in a form such as 17_[3-9]."""
    array_id, indices = named_elements(named) or (named, None)
    answer = transport.get("/jobs", all=True, array=array_id, limit=0)
    wanted = None if indices is None else set(indices)
    rows = [row for row in answer["jobs"] if wanted is None or row["array_index"] in wanted]
    return sorted(rows, key=lambda row: row["array_index"] or 0)


def _show_array(transport: Transport, array_id: str, elements: Sequence[dict[str, Any]], *, json: bool) -> None:
    if json:
        print_json({"id": array_id, "array_size": len(elements), "elements": elements})
        return
    rows = rows_of("JobRow", elements)
    first = row_of("JobDetail", transport.get(job_path(rows[0].id)))
    known = needs_places(rows[:MOST_LINES])
    devices = rows_of("DeviceRow", transport.get("/devices")["devices"]) if known else ()
    counts = Counter(str(row.phase) for row in rows)
    words = ", ".join(f"{count} {phase}" for phase, count in counts.items())
    name = f"  {printable(first.name)}" if first.name else ""
    write_painted(painted(f"array {array_id}{name}  {count_of(len(rows), 'element')}: {words}", "bold"), "")
    for label, value in [("such as", [first.id]), *_submission(first)]:
        if value:
            write_painted(*_labelled(label, value, room()))
    write_painted("")
    write_painted(*job_lines(rows[:MOST_LINES], places_of(devices, rows), time.time()))
    write_painted(*_more(len(rows)))


def _explained(transport: Transport, detail: JobDetail) -> Explanation | None:
    """Why the job waits or failed, and what is missing in its log. None if that is not known now."""
    if detail.phase in ("STARTING", "RUNNING"):
        return None
    try:
        explanation: Explanation = row_of("Explanation", transport.get(job_path(detail.id, "why")))
    except CorralError:
        return None
    return explanation


def _memory_before_its_end(detail: JobDetail, explanation: Explanation | None) -> Sequence[str]:
    """The recent memory use of a job that ran out of memory; empty for other jobs."""
    from corral.cli.tables.memory_trend import memory_trend, ran_out_of_memory

    if not ran_out_of_memory(detail, explanation):
        return ()
    from corral.client import Client

    with Client() as client:
        return memory_trend(client, detail)


def detail_lines(
    detail: JobDetail,
    explanation: Explanation | None,
    now: float,
    columns: int | None,
    memory: Sequence[str] = (),
) -> Iterator[str]:
    """All lines of `show`, at most `columns` wide; None cuts nothing. `memory` is the job's last memory use."""
    name = f"  {printable(detail.name)}" if detail.name else ""
    title, stands = f"job {detail.id}{name}", _how_it_stands(detail, now)
    phase = painted(detail.phase, PHASE_STYLES.get(detail.phase, "bold"))
    if columns is None or len(f"{title}  {detail.phase}{stands}") <= columns:
        yield f"{painted(title, 'bold')}  {phase}{stands}"
    else:
        yield from (painted(title, "bold"), f"  {phase}{stands}")
    groups: tuple[Sequence[Labelled], ...] = (
        _standing(detail, explanation),
        _submission(detail),
        _times(detail, explanation),
        _placed(detail),
        [*_measured(detail.gpu_monitoring), ("memory", memory)],
        [("use", [] if detail.use is None else [_use_in_words(detail.use)])],
        [("attempts", [_attempt(one, detail, now) for one in detail.history])],
        [("commands", [_command(one) for one in detail.commands[-MOST_COMMANDS:]])],
        [("log", [*_logs(detail), *_cut(explanation)]), ("notes", list(detail.spec.get("notes", ())))],
    )
    for group in groups:
        lines = [line for label, value in group if value for line in _labelled(label, value, columns)]
        if lines:
            yield ""
            yield from lines


def _labelled(label: str, value: Sequence[str] | TextTable, columns: int | None) -> Iterator[str]:
    """The lines of a value, the first with its label. A text that is too long continues on the next lines."""
    if isinstance(value, TextTable):
        lines = value.lines(indent=LABEL_COLUMNS)
    else:
        lines = [line for text in value for line in _continued(printable(text), columns)]
    for number, line in enumerate(lines):
        yield painted((label if number == 0 else "").ljust(LABEL_COLUMNS), "dim") + line


def _continued(text: str, columns: int | None) -> list[str]:
    """The text broken at spaces, so that paths stay whole."""
    if columns is None:
        return [text]
    first, *more = wrapped(text, columns - LABEL_COLUMNS - 2) or [""]
    return [first, *(f"  {line}" for line in more)]


def _how_it_stands(detail: JobDetail, now: float) -> str:
    """The duration and the exit code in a few words: " for 2h 5m", ", exit code 1, after 3m"."""
    if detail.phase == "PENDING":
        return f" for {format_duration(now - detail.submitted_at)}" if detail.submitted_at else ""
    code = ""
    if detail.exit_code is not None:
        code = f", {exit_code_in_words(detail.exit_code, detail.signal, brief=True)}"
    if detail.started_at is None:
        return code
    ran = format_duration((detail.ended_at or now) - detail.started_at)
    return f"{code}, after {ran}" if detail.ended else f" for {ran}"


def _standing(detail: JobDetail, explanation: Explanation | None) -> list[Labelled]:
    """Why the job waits, or how it ended."""
    if explanation is None or detail.phase not in ("PENDING", "STOPPING", "FAILED"):
        return [("reason", [detail.reason] if detail.reason else [])]
    position = [] if explanation.position is None else [f"place in the queue: {explanation.position}"]
    found = [] if explanation.diagnosis is None else [explanation.diagnosis]
    return [("reason", [explanation.reason, *position]), ("diagnosis", found)]


def _submission(detail: JobDetail) -> list[Labelled]:
    spec = detail.spec
    command = shlex.join(detail.command)
    if len(command) > MOST_TEXT:
        command = f"{command[:MOST_TEXT]}… (--json has all of it)"
    whose = f"{detail.user}, queue {detail.queue}, project {detail.project}, priority {detail.priority}"
    limits = [
        *([f"time limit {format_duration(detail.time_limit_s)}"] if detail.time_limit_s is not None else []),
        *([f"may be retried {count_of(spec['retries'], 'time')}"] if spec.get("retries") else []),
        *(["held"] if detail.held else []),
    ]
    after = ", ".join(spec.get("after") or ())
    container = spec.get("container") or {}
    left = f" (still waits for {', '.join(detail.waits_for)})" if detail.waits_for else ""
    return [
        ("user", [whose]),
        ("command", [command] if detail.command else [str(detail.kind)]),
        ("image", [container["image"]] if container.get("image") else []),
        ("params", [named_values(tuple(detail.params.items()))] if detail.params else []),
        ("directory", [spec["workdir"]] if spec.get("workdir") else []),
        ("files", _files(detail.id, spec)),
        ("input", [spec["input"]] if spec.get("input") else []),
        ("saves", _checkpoints(spec)),
        ("commit", [_commit(spec)] if spec.get("git_commit") else []),
        ("request", [line for line in (detail.needs, ", ".join(limits)) if line]),
        ("after", [after + left] if after else []),
        # Of a job that waits, its reason says it.
        ("packed", [detail.packing] if detail.packing and detail.phase != "PENDING" else []),
    ]


def _files(job_id: str, spec: Mapping[str, Any]) -> list[str]:
    """The files that were uploaded for the job, and those that come back."""
    upload, download = spec.get("upload"), spec.get("download")
    if upload is None:
        return []
    size = format_bytes(upload.get("size_bytes", 0))
    sent = f"{count_of(upload.get('files', 0), 'file')} ({size}) of {upload['source']} are sent to its nodes"
    back = f"`{download}` comes back by `corral fetch {job_id}` when the job has ended"
    return [sent] if download is None else [sent, back]


def _checkpoints(spec: Mapping[str, Any]) -> list[str]:
    """Where the job's checkpoints are, and when its program is told to make them."""
    signal, every_s, directory = (spec.get(f"checkpoint_{name}") for name in ("signal", "every_s", "dir"))
    if signal is None and directory is None:
        return []
    told = "" if signal is None else f", {signal} {format_duration(spec.get('checkpoint_grace_s', 60.0))} before a stop"
    often = "" if every_s is None else f" and every {format_duration(every_s)}"
    return [f"in {directory or 'its scratch'}{told}{often}"]


def _commit(spec: Mapping[str, Any]) -> str:
    """The commit of the working directory at the time of submission."""
    differs = ", and tracked files differed from it" if spec.get("git_dirty") else ""
    return f"{spec['git_commit']}{differs}"


def _times(detail: JobDetail, explanation: Explanation | None) -> list[Labelled]:
    waited = ", ".join(f"{part.reason} {format_duration(part.seconds)}" for part in detail.waited)
    expected, what = detail.expected_start, detail.expected_start_is
    if explanation is not None and explanation.expected_start_is is not None:
        expected, what = explanation.expected_start, explanation.expected_start_is
    waits = detail.phase == "PENDING" or (detail.phase == "STOPPING" and expected is not None)
    evicted = f"{count_of(detail.evictions, 'time')}, {format_duration(detail.lost_s)} of work lost"
    return [
        ("submitted", _moment(detail.submitted_at)),
        ("begin", ["not before " + text for text in _moment(detail.begin_at)]),
        ("waited", [waited] if waited else []),
        ("starts", [start_time(expected, what)] if waits else []),
        ("started", _moment(detail.started_at)),
        ("saved", _moment(detail.saved_at)),
        ("ended", _moment(detail.ended_at) if detail.ended else []),
        ("made room", [evicted] if detail.evictions else []),
        ("GPU faults", [f"moved off a sick GPU {count_of(detail.site_faults, 'time')}"] if detail.site_faults else []),
    ]


def _moment(at: float | None) -> list[str]:
    return [] if at is None else [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))]


def _placed(detail: JobDetail) -> list[Labelled]:
    """The devices that the job has or had, how limits are enforced there, and the state of its members."""
    gang = len(detail.members) > 1
    without = [f"no GPU, on node {detail.members[0].node}"] if detail.members and not detail.grant else []
    behind = detail.enforcement
    named = {} if behind is None else {what: getattr(behind, what) for what in LIMITED}
    levels = ", ".join(f"{what.replace('_', ' ')} {level}" for what, level in named.items() if level is not None)
    why = [] if behind is None or behind.reason is None else [f"advisory: {behind.reason}"]
    return [
        ("had" if detail.ended else "has", _table_of_devices(detail.grant, ranked=gang) if detail.grant else without),
        ("", _more(len(detail.grant))),
        ("limits", [levels] if levels else []),
        ("", why),
        ("numa", [_near(detail.members[0])] if detail.members and not gang and detail.members[0].numa_nodes else []),
        ("members", _table_of_members(detail) if gang else []),
        ("", _more(len(detail.members)) if gang else []),
    ]


def _measured(found: GpuMonitoring | None) -> list[Labelled]:
    """The measurements of the job's GPUs: means and ranges."""
    if found is None:
        return []
    table = TextTable(["GPU", "USED", "MEMORY", "TEMP", "POWER"], numeric=("GPU",))
    for label, stats in list(found.gpu_stats.items())[:MOST_LINES]:
        table.add(
            label,
            _range_of(stats.utilization, "%"),
            _range_of(stats.memory_used_mb),
            _range_of(stats.temperature_c, "C"),
            _range_of(stats.power_draw_w, "W"),
        )
    period = f"for {format_duration(found.monitoring_duration_seconds)}, {count_of(found.sample_count, 'sample')}"
    return [("measured", [period]), ("", table), ("", _more(len(found.gpu_stats)))]


def _range_of(measured: MeasuredRange | MeasuredUtilization | None, unit: str | None = None) -> str:
    """A mean and its range: "87% (0-100)"; for memory, which has no unit, "20G (1G-40G)"."""
    if measured is None:
        return "-"
    least, most, mean = round(measured.min), round(measured.max), round(measured.mean)
    if unit is None:
        return f"{format_memory(mean)} ({format_memory(least)}-{format_memory(most)})"
    return f"{mean}{unit} ({least}-{most})"


def share_in_words(grant: GrantedDevice) -> str:
    """The share of the device: "all", "0.5", "slice 1g.10gb"."""
    if grant.mig_profile is not None:
        return f"slice {grant.mig_profile}"
    return "all" if grant.share_milli == MILLI_PER_DEVICE else format_share(grant.share_milli)


def _table_of_devices(grants: Sequence[GrantedDevice], *, ranked: bool) -> TextTable:
    rank = ["RANK"] if ranked else []
    table = TextTable([*rank, "GPU", "NODE", "SHARE", "MEMORY", "UUID"], numeric=(*rank, "GPU", "MEMORY"))
    for grant in grants[:MOST_LINES]:
        memory = "all" if grant.memory_mib is None else format_memory(grant.memory_mib)
        index = "?" if grant.index is None else str(grant.index)
        cells = (index, grant.node or "?", share_in_words(grant), memory, grant.uuid)
        table.add(*([str(grant.rank)] if ranked else []), *cells)
    return table


def _table_of_members(detail: JobDetail) -> TextTable:
    near = ["NUMA"] if any(member.numa_nodes for member in detail.members) else []
    table = TextTable(("RANK", "NODE", "GPUS", "PHASE", "EXIT", *near), numeric=("RANK", "GPUS", "EXIT"))
    for member in detail.members[:MOST_LINES]:
        code = "-" if member.exit_code is None else str(member.exit_code)
        cells = (str(member.rank), member.node, str(len(member.devices)), member.phase or "?", code)
        table.add(*cells, *([_near(member) if member.numa_nodes else "-"] if near else []))
    return table


def _near(member: MemberRow) -> str:
    """The NUMA nodes and CPUs to which the member is bound: "node 0, CPUs 0-31"."""
    several = "s" if len(member.numa_nodes) > 1 else ""
    return f"node{several} {', '.join(map(str, member.numa_nodes))}, CPUs {member.numa_cpus}"


def _use_in_words(use: JobUse) -> str:
    """How the job used its GPUs: "3.50 GPU-hours: 62% used, 30% idle, 8% unmetered; 1.20 kWh; 7.00 EUR"."""
    parts = {"used": use.used_hours, "idle": use.idle_hours, "unmetered": use.unmetered_hours}
    told = ", ".join(f"{100 * part / use.gpu_hours:.0f}% {name}" for name, part in parts.items() if part)
    wasted = [f"{use.wasted_hours:.2f} wasted"] if use.wasted_hours else []
    energy = [] if use.energy_kwh is None else [f"{use.energy_kwh:.2f} kWh"]
    cost = [] if use.cost is None else [f"{use.cost:.2f} {use.currency or ''}".strip()]
    return "; ".join([f"{use.gpu_hours:.2f} GPU-hours: {told}", *wasted, *energy, *cost])


def _more(count: int) -> list[str]:
    return [f"and {count - MOST_LINES} more; --json has all"] if count > MOST_LINES else []


def _attempt(one: AttemptRow, detail: JobDetail, now: float) -> str:
    """An attempt in a line: "2: 2026-11-22 10:00:03, 7m 3s on a: failed with exit code 1"."""
    nodes = ", ".join(one.nodes) or one.node or "?"
    begun = one.started_at if one.started_at is not None else one.allocated_at
    ran = "" if one.started_at is None else f", {format_duration((one.ended_at or now) - one.started_at)}"
    what = one.reason or detail.phase.lower()
    apart = {each.log for each in detail.history if each.log}
    log = f"; log {one.log}" if len(apart) > 1 and one.log else ""
    return f"{one.attempt}: {(_moment(begun) or ['?'])[0]}{ran} on {nodes}: {what}{log}"


def _command(one: ExecutedCommand) -> str:
    """A command that was run inside the job, in a line: "2026-11-22 10:00:03 by bob: nvidia-smi"."""
    rank = f", in rank {one.rank}" if one.rank else ""
    return f"{(_moment(one.at) or ['?'])[0]} by {one.by}{rank}: {one.command or 'a shell'}"


def _cut(explanation: Explanation | None) -> list[str]:
    return [explanation.missing_output] if explanation is not None and explanation.missing_output else []


def _logs(detail: JobDetail) -> list[str]:
    """Paths of the logs, and of the files that receive a job's output in their place."""
    several = len(detail.members) > 1
    lines = []
    for member in detail.members[:MOST_LINES]:
        rank = f"rank {member.rank}: " if several else ""
        files = [path for path in (member.log, member.output, member.error) if path]
        lines += [rank + path for path in dict.fromkeys(files)]
    if not lines and detail.history and detail.history[-1].log:
        lines = [detail.history[-1].log]
    return lines
