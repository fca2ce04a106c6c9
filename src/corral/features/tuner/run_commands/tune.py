"""`corral tune`: find the best way to serve a model, as a task's file asks for it."""

import json
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from corral.cli.jobs.flags import device_uuid
from corral.cli.jobs.kubeconfig_variable import kubeconfig_from_anywhere
from corral.cli.screen import room, say, told, write_lines, write_painted
from corral.client import Client
from corral.core.model.errors import Refused
from corral.core.model.units import count_of, format_bytes, format_duration
from corral.features.tuner import commands
from corral.features.tuner.answers import TaskDetail
from corral.features.tuner.finding_answers import TaskEstimate
from corral.features.tuner.run_commands.task_commands import command_of, outcome, report_lines

LOOK_S = 0.5
MOST_BYTES = 1 << 20
"""The most bytes of a task's file: a device such as /dev/zero never ends."""

_OF_HUB = ("HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_OF_CLUSTER = ("KUBECONFIG", "CORRAL_PROMETHEUS_URL")
_OF_SHELL = {
    "process": ("PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", *_OF_HUB),
    "docker": _OF_HUB,
    "ome": _OF_CLUSTER,
    "kserve": _OF_CLUSTER,
}
"""Variables of the user's shell that a task gets unless its file sets them, by deployment mode."""


def tune(given: commands.TuneCommand) -> int:
    """Run `corral tune`."""
    if given.demo:
        from corral.features.tuner.run_commands.tune_demo import tune_demo

        if given.file is not None:
            raise Refused("--demo has a task of its own; leave the file out", field="--demo")
        if given.dry_run:
            raise Refused("--demo runs its task; leave --dry-run out", field="--dry-run")
        tune_demo()
        return 0
    if given.file is None:
        raise Refused("name the file of a task, or use --demo", field="TASK.json")
    if given.dry_run and given.follow:
        raise Refused("--dry-run creates no task that could be followed; leave --follow out", field="--dry-run")
    with Client() as client:
        task = with_uuids(client, with_shell(read_task(given.file)))
        if given.dry_run:
            write_lines(*(line for text in estimate_texts(client.tasks.estimate(task)) for line in told(text, room())))
            return 0
        row = client.tasks.create(task)
        for note in row.notes:
            say(note)
        client.tasks.start(row.id)
        if not given.follow:
            write_lines(row.id)
            return 0
        try:
            detail = follow_task(client, row.id)
        except KeyboardInterrupt:
            say(f"task {row.id} runs on; `corral tasks cancel {row.id}` stops it")
            return 130
    if detail.task.status != "completed":
        return 1
    return 0


def read_task(file: Path) -> dict[str, Any]:
    """The task in a JSON file. Raises Refused."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise Refused(f"{file} has more than {format_bytes(MOST_BYTES)}; no task is so large", field="TASK.json")
        task = json.loads(content)
    except OSError as error:
        raise Refused(f"{file} cannot be read: {error.strerror}", field="TASK.json") from None
    except RecursionError:
        raise Refused(f"{file} is nested too deeply", field="TASK.json") from None
    except ValueError as error:
        raise Refused(f"{file} is not JSON: {error}", field="TASK.json") from None
    if not isinstance(task, dict):
        raise Refused(f'{file} must have an object, such as {{"task_name": "llama", ...}}', field="TASK.json")
    return task


def with_shell(task: dict[str, Any]) -> dict[str, Any]:
    """The task with variables of this shell added. Variables that the task sets stay."""
    mode = task.get("deployment_mode", "process")
    of_shell = _OF_SHELL.get(mode, ()) if isinstance(mode, str) else ()
    own = {name: os.environ[name] for name in of_shell if name in os.environ}
    own |= kubeconfig_from_anywhere(own)
    given = task.get("env")
    return task if given is not None and not isinstance(given, dict) else {**task, "env": {**own, **(given or {})}}


def with_uuids(client: Client, task: dict[str, Any]) -> dict[str, Any]:
    """The task with the UUIDs of GPUs that its file names by index or NODE:INDEX. Raises Refused."""
    named = task.get("device")
    names = named if isinstance(named, list) else [named]
    if not named or not all(isinstance(one, str | int) for one in names):
        return task
    return {**task, "device": [device_uuid(client, str(one), "device") for one in names]}


def estimate_texts(found: TaskEstimate) -> Iterator[str]:
    """Yield what a task takes at most, in sentences without a full stop."""
    least, most = found.gpus_least, found.gpus_most
    gpus = count_of(most, "GPU") if least == most else f"{least} to {most} GPUs"
    nodes = f" on up to {found.nodes_most} nodes" if found.nodes_most > 1 else ""
    yield f"at most {count_of(found.experiments, 'experiment')} with {gpus} each{nodes}"
    each = format_duration(found.measuring_s)
    measuring = f"measuring takes at most {each} for each, and {found.gpu_hours:.3g} GPU-hours"
    whole = "not all can run here" if found.hours is None else f"{format_duration(3600 * found.hours)} for all of them"
    yield f"{measuring}; {whole}"
    yield "the time of deployments is not known before"
    yield from found.notes


def follow_task(client: Client, task_id: str) -> TaskDetail:
    """Print each experiment once it is over, and at the end the findings. Return the task's details."""
    known: set[str] = set()
    write_lines("a lower score is better; throughput is negated")
    if client.tasks.get(task_id).config.optimization.get("strategy") == "racing":
        said = (
            "racing measures each candidate in part, and the most promising ones again in full, as separate experiments"
        )
        write_lines(*told(said, room()))
    while True:
        detail = client.tasks.get(task_id)
        for row in client.experiments.list(task_id):
            if row.completed_at is not None and row.id not in known:
                known.add(row.id)
                planned = detail.task.planned_experiments
                count = f"[{len(known)}/{'?' if planned is None else planned}]"
                write_lines(*told(f"{count} {outcome(row)}", room()))
        # Without this, a pipe would show nothing until the end.
        sys.stdout.flush()
        if detail.task.status.over:
            break
        time.sleep(LOOK_S)
    rows = client.experiments.list(task_id, metrics=True)
    write_painted("", *report_lines(detail, rows, partial(command_of, client)))
    return detail
