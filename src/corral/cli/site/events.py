"""`corral events`: print each event as a line."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from corral.cli.commands import looking
from corral.cli.screen import print_json_line, room, write_lines
from corral.client import Client, Event


def events(given: looking.EventsCommand) -> None:
    """Run `corral events`."""
    with Client() as client:
        for event in client.events(given.topics.split(","), after=given.after):
            if given.json:
                print_json_line(event)
            elif event.topic != "hello":
                write_lines(*(line[: room()] for line in event_lines(event)))
                sys.stdout.flush()


def event_lines(event: Event) -> list[str]:
    """A line for each changed row, or for a message of the stream itself."""
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
        health = f"{row['health']}:" if row.get("health") else None
        words = [row.get("uuid") or row.get("node"), job, row.get("user"), health, row.get("reason")]
    return " ".join(str(word) for word in words if word)
