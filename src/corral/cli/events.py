"""`corral events`: what happens, a line each."""

import sys
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from corral.cli.screen import command_group, example, print_json_line, room, write_lines
from corral.client import Client, Event

app = command_group()


@app.command(epilog=example("corral events", "corral events --topics jobs --after 1041 --json"))
def events(
    topics: Annotated[
        str, typer.Option("--topics", metavar="TOPIC,...", help="Some of jobs, devices, alerts, tasks, metrics.")
    ] = "jobs,devices,alerts",
    after: Annotated[
        int | None, typer.Option("--after", metavar="ID", min=0, help="Begin with what came after this event.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Follow what happens to jobs, GPUs and alerts.

    A line has the time, the event's id, its topic, what happened and to what. It goes on until Ctrl-C, also over a
    restart of the server. With --after 0 it begins with everything that the server still knows.
    """
    with Client() as client:
        for event in client.events(topics.split(","), after=after):
            if json:
                print_json_line(event)
            elif event.topic != "hello":
                write_lines(*(line[: room()] for line in event_lines(event)))
                sys.stdout.flush()


def event_lines(event: Event) -> list[str]:
    """A line for each row that changed, or for what the stream says of itself."""
    at = time.strftime("%H:%M:%S", time.localtime(event.at))
    head = f"{at} {'-' if event.id is None else event.id:>6} {event.topic:<7} {event.what:<12} "
    if not event.rows:
        return [f"{head}{event.message or ''}".rstrip()]
    return [f"{head}{_told(event.topic, row)}".rstrip() for row in event.rows]


def _told(topic: str, row: Mapping[str, Any]) -> str:
    if topic == "jobs":
        words = [row.get("id"), row.get("phase"), row.get("user"), row.get("name"), *(row.get("nodes") or ())]
        if "exec_command" in row:
            words.append(f"by {row.get('exec_by')}: {row['exec_command'] or 'a shell'}")
    elif topic == "metrics":
        readings = ("utilization_pct", "memory_used_mib", "temperature_c", "power_w")
        measured = [f"{name}={'-' if row.get(name) is None else row.get(name)}" for name in readings]
        words = [f"{row.get('node')}:{row.get('index')}", row.get("state"), *measured]
    elif topic == "alerts":
        words = [row.get("id"), row.get("severity"), row.get("sentence") or row.get("match")]
    else:
        job = f"job {row['job']}" if row.get("job") else None
        words = [row.get("uuid") or row.get("node"), job, row.get("user"), row.get("reason")]
    return " ".join(str(word) for word in words if word)
