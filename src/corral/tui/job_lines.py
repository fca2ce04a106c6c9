"""A line for each job, the text about one job below the list, and all of it at the head of its log."""

from collections.abc import Sequence
from dataclasses import dataclass

from corral.core.model.answers.job_details import Explanation, JobDetail
from corral.core.model.answers.jobs import JobRow
from corral.core.model.units import format_duration
from corral.formatting.job_words import (
    PHASE_STYLES,
    Places,
    gpus_asked,
    job_called,
    job_place,
    job_time,
    wait_word,
)
from corral.formatting.times import clock_time, start_time
from corral.tui.styled_lines import Line, Span, cell, clipped_to, line_of

_PHASE, _GPUS, _TIME, _STARTS = 9, 4, 7, 6
_LONGEST_ID, _LONGEST_NAME, _LONGEST_USER, _QUEUE = 12, 32, 14, 12


@dataclass(frozen=True, slots=True)
class JobLayout:
    """The width of each part of a line in columns; parts of 0 are left out."""

    columns: int
    job_id: int
    name: int
    user: int
    queue: int
    where: int


def job_layout(columns: int, jobs: Sequence[JobRow]) -> JobLayout:
    """At 80 columns all but the queue; wider terminals get longer names, places and reasons."""
    job_id = min(_LONGEST_ID, max((len(job.id) for job in jobs), default=0))
    job_id = max(4, job_id)
    # The blanks between, and at least this much of where and why.
    left = columns - job_id - _PHASE - _GPUS - _TIME - _STARTS - 7 - 18
    queue = _QUEUE if left >= 50 else 0
    left -= queue + 1 if queue else 0
    name = max(4, min(_LONGEST_NAME, left * 3 // 5))
    user = max(4, min(_LONGEST_USER, left - name))
    return JobLayout(columns, job_id, name, user, queue, 18 + max(0, left - name - user))


def job_title(layout: JobLayout) -> str:
    """The titles of the columns."""
    titles = ["ID".ljust(layout.job_id), "NAME".ljust(layout.name), "USER".ljust(layout.user)]
    titles += ["QUEUE".ljust(layout.queue)] if layout.queue else []
    titles += ["PHASE".ljust(_PHASE), "GPUS", "TIME".rjust(_TIME), "STARTS", "WHERE, WHY"]
    return " ".join(titles)


def job_line(job: JobRow, layout: JobLayout, places: Places, now: float) -> Line:
    """The line of one job."""
    spans: list[Span] = [
        cell(job.id, layout.job_id),
        cell(job_called(job), layout.name),
        cell(job.user, layout.user),
    ]
    if layout.queue:
        spans.append(cell(job.queue, layout.queue))
    where = f"({wait_word(job)})" if job.phase == "PENDING" else job_place(job, places)
    spans += [
        cell(job.phase, _PHASE, PHASE_STYLES.get(job.phase)),
        cell(gpus_asked(job), _GPUS, right=True),
        cell(job_time(job, now), _TIME, right=True),
        cell(_starts(job), _STARTS, right=True),
        (clipped_to(where, layout.where), None),
    ]
    return line_of(*spans, columns=layout.columns)


def about_waiting(explanation: Explanation) -> str:
    """Say why a job waits, in full: its place, its expected start, and a request that would start now."""
    place = "" if explanation.position is None else f", number {explanation.position} in the queue"
    when = start_time(explanation.expected_start, explanation.expected_start_is)
    now = f"; with {explanation.starts_now_with} it would start now" if explanation.starts_now_with else ""
    return f"job {explanation.id}{place}, starts {when}: {explanation.reason}{now}"


def about_job(job: JobRow, places: Places) -> str:
    """Return the facts about a job that does not wait for which its line has no room."""
    limit = "" if job.time_limit_s is None else f", time limit {format_duration(job.time_limit_s)}"
    began = "" if job.started_at is None else f", started {clock_time(job.started_at)}"
    ended = "" if job.ended_at is None else f", ended {clock_time(job.ended_at)}"
    return f"job {job.id} {job_called(job)} of {job.user}: {job_place(job, places)}{began}{ended}{limit}"


def detail_lines(job: JobDetail, explanation: Explanation | None, places: Places, now: float) -> list[tuple[str, str]]:
    """All of a job as titles and texts."""
    code = "" if job.exit_code is None else f", exit code {job.exit_code}"
    limit = "" if job.time_limit_s is None else f" of {format_duration(job.time_limit_s)}"
    told = [
        ("job", f"{job.id} {job_called(job)} of {job.user}, queue {job.queue}, priority {job.priority}"),
        ("phase", f"{job.phase}{code}, {job_time(job, now)}{limit}, attempts {job.attempts}"),
        ("command", " ".join(job.command)),
        ("asks for", job.needs),
        ("where", "" if job.phase == "PENDING" else job_place(job, places)),
        ("use", _use_of(job)),
    ]
    if explanation is not None:
        told.append(("why", about_waiting(explanation) if explanation.phase == "PENDING" else explanation.reason))
        told.append(("diagnosis", explanation.diagnosis or ""))
    return [(title, text) for title, text in told if text]


def _starts(job: JobRow) -> str:
    """Return the expected start of a waiting job as a time of day; `about_waiting` has the date."""
    if job.phase != "PENDING":
        return ""
    return "?" if job.expected_start is None else clock_time(job.expected_start)[-5:]


def _use_of(job: JobDetail) -> str:
    if job.gpu_monitoring is None:
        return ""
    parts = []
    for gpu, measured in job.gpu_monitoring.gpu_stats.items():
        use, memory = measured.utilization, measured.memory_used_mb
        words = [] if use is None else [f"{use.mean:.0f}% ({use.min:.0f} to {use.max:.0f})"]
        words += [] if memory is None else [f"{memory.mean / 1024:.1f}G"]
        parts.append(f"GPU {gpu} {', '.join(words)}" if words else f"GPU {gpu} not measured")
    return "; ".join(parts)
