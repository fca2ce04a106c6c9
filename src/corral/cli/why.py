"""`corral why`: why a job waits, and what would start it now."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli.screen import command_group, example, print_json, width, wrapped, write_lines
from corral.client import Client
from corral.formatting.times import start_time
from corral.model.units import format_duration

if TYPE_CHECKING:
    from corral.client import Explanation

app = command_group()


@app.command(epilog=example("corral why 17"))
def why(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="Job id.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain why a job waits, and what would start it now.

    Also shows its place in the queue, and for a job that has started, how long it waited for which reason. For one that
    failed, what the end of its log says about it and how to fix it.
    """
    with Client() as client:
        explanation = client.jobs.why(job_id)
    if json:
        print_json(explanation)
    else:
        columns = width() if sys.stdout.isatty() else None
        for line in explained(explanation):
            first, *more = wrapped(line, columns - 2) if columns else [line]
            write_lines(first, *(f"  {part}" for part in more))


def explained(explanation: "Explanation") -> list[str]:
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
    if explanation.waited:
        total = sum(part.seconds for part in explanation.waited)
        spent = ", ".join(f"{part.reason} {format_duration(part.seconds)}" for part in explanation.waited)
        lines.append(f"waited {format_duration(total)}: {spent}")
    return lines
