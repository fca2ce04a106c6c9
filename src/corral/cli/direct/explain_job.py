"""`corral why`: why a job waits, and what would start it now."""

from __future__ import annotations

import sys

from corral.cli.direct.named_job import job_meant
from corral.cli.screen import print_json, width, wrapped, write_lines
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport, job_path
from corral.core.model.units import format_duration
from corral.formatting.times import start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.cli.commands import looking
    from corral.client import Explanation


def explain_job(given: looking.WhyCommand) -> int:
    """Print why a job waits. Return the exit code."""
    transport = Transport(find_address())
    answer = transport.get(job_path(job_meant(transport, given.job_id), "why"))
    if given.json:
        print_json(answer)
        return 0
    from corral.cli.direct.rows import row_of

    columns = width() if sys.stdout.isatty() else None
    for line in explained(row_of("Explanation", answer)):
        first, *more = wrapped(line, columns - 2) if columns else [line]
        write_lines(first, *(f"  {part}" for part in more))
    return 0


def explained(explanation: Explanation) -> list[str]:
    """The lines that `why` prints."""
    lines = [explanation.reason, *(line for line in (explanation.diagnosis, explanation.holds) if line)]
    if explanation.missing_output:
        lines.append(f"its log is cut: {explanation.missing_output}")
    if explanation.position is not None:
        lines.append(f"place in the queue: {explanation.position}")
    if explanation.phase == "PENDING":
        lines.append(f"expected start: {start_time(explanation.expected_start, explanation.expected_start_is)}")
    elif explanation.phase == "STOPPING" and (explanation.expected_start or explanation.eviction):
        lines.append(f"continues: {start_time(explanation.expected_start, explanation.expected_start_is)}")
    if explanation.starts_now_with and explanation.starts_now_with not in explanation.reason:
        lines.append(f"starts now with: {explanation.starts_now_with}")
    if explanation.predicted is not None:
        # Imported here: most jobs have no such past.
        from corral.formatting.usual_use import usual_use

        lines.append(usual_use(explanation.predicted))
    if explanation.waited:
        total = sum(part.seconds for part in explanation.waited)
        spent = ", ".join(f"{part.reason} {format_duration(part.seconds)}" for part in explanation.waited)
        lines.append(f"waited {format_duration(total)}: {spent}")
    return lines
