"""What the commands load that scripts run often. Imports are held here: times differ from machine to machine."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from corral.cli.direct.explain_job import explained
from corral.cli.direct.list_nodes import node_lines
from corral.cli.direct.list_queues import queue_lines
from corral.cli.direct.show_job import detail_lines
from corral.cli.tables.device_tables import device_lines, status_lines
from corral.cli.tables.job_rows import job_lines, oldest_first
from corral.client import Client
from corral.formatting.job_words import places_of
from tests.e2e.box import CORRAL, PATIENCE_S, Box, line_of

SLOW = {
    "argparse", "asyncio", "concurrent", "ctypes", "dataclasses", "datetime", "email", "hashlib", "http", "importlib",
    "inspect", "ipaddress", "logging", "multiprocessing", "pathlib", "pydantic", "random", "rich", "shlex", "shutil",
    "ssl", "subprocess", "tempfile", "textwrap", "threading", "typing", "unicodedata", "urllib", "yaml",
}  # fmt: skip
"""Each of these takes a tenth of a bare interpreter's start, or far more."""

COMMON = {
    "corral", "corral.http_answer",
    "corral.cli", "corral.cli.app", "corral.cli.commands", "corral.cli.declaring", "corral.cli.direct",
    "corral.cli.reading", "corral.cli.screen", "corral.client", "corral.client.connecting.address",
    "corral.client.connecting.server_home", "corral.client.connecting.transport", "corral.core.model",
    "corral.core.model.errors", "corral.core.model.home",
    "corral.core.model.printable", "corral.core.model.units",
}  # fmt: skip
LOOKING = "corral.cli.commands.looking"
RUNNING = {f"corral.cli.commands.{name}" for name in ("running", "job_options", "gpu_count")}
OWN = {
    "cancel": {"corral.cli.commands.changing", "corral.cli.direct.change_jobs", "corral.cli.direct.named_job"},
    "devices": {"corral.cli.commands.gpus_and_nodes", "corral.cli.direct.list_devices"},
    "logs": {LOOKING, "corral.cli.direct.print_log", "corral.cli.direct.list_jobs", "corral.cli.direct.named_job"},
    "ps": {LOOKING, "corral.cli.direct.list_jobs"},
    "status": {LOOKING, "corral.cli.direct.list_devices"},
    "submit": {
        *RUNNING,
        "corral.client.submitting.git_commit", "corral.core.model.jobs.script_copy",
        "corral.cli.direct.plain_script",
        "corral.cli.direct.submit_command",
        "corral.cli.jobs.foreign_commands",
        "corral.client.submitting.calling_process",
        "corral.client.submitting.plain_submission",
    },
    "wait": {*RUNNING, "corral.cli.direct.wait_for_jobs", "corral.cli.direct.named_job", "corral.client.waiting"},
    "why": {
        LOOKING,
        "corral.cli.direct.explain_job", "corral.cli.direct.named_job", "corral.formatting", "corral.formatting.times",
        "corral.core.model.placing.certainty",
    },
}  # fmt: skip

ROWS = {
    "corral.cli.direct.rows", "corral.cli.direct.shapes", "corral.core.model.row_traits",
    "corral.core.model.jobs.phase",
}  # fmt: skip
TABLE = {
    *ROWS,
    "corral.cli.tables.text_table",
    "corral.formatting",
    "corral.formatting.times",
    "corral.core.model.placing.certainty",
}
JOBS = {
    *TABLE, "corral.cli.tables.job_groups", "corral.cli.tables.job_rows", "corral.formatting.device_names",
    "corral.formatting.job_words", "corral.core.model.jobs.array_indices", "corral.core.model.runs.exit_code",
    "corral.core.model.jobs.named_values",
}  # fmt: skip
DEVICES = {
    *TABLE, "corral.cli.tables.device_tables", "corral.formatting.device_names", "corral.formatting.device_words",
}  # fmt: skip
SHOW = {LOOKING, "corral.cli.direct.show_job", "corral.cli.direct.named_job"}
TABLES = {
    "ps --all": {*JOBS, LOOKING, "corral.cli.direct.list_jobs", "corral.cli.tables.job_table"},
    "ps --all --limit 1": {*JOBS, LOOKING, "corral.cli.direct.list_jobs", "corral.cli.tables.job_table"},
    "ps --start": {*JOBS, LOOKING, "corral.cli.direct.list_jobs", "corral.cli.tables.job_table"},
    "status": {*DEVICES, LOOKING, "corral.cli.direct.list_devices"},
    "devices": {*DEVICES, "corral.cli.commands.gpus_and_nodes", "corral.cli.direct.list_devices"},
    "nodes": {
        *TABLE,
        "corral.cli.commands.gpus_and_nodes",
        "corral.cli.direct.list_nodes",
        "corral.core.model.devices.version_labels",
    },
    "queues": {*TABLE, LOOKING, "corral.cli.direct.list_queues"},
    "why {ended}": {*ROWS, *OWN["why"]},
    "show {ended}": {*JOBS, *SHOW, "corral.cli.tables.memory_trend"},
    "show {array}": {*JOBS, *SHOW},
    "submit --hold --array 0-1 -- true": {*OWN["submit"], "corral.core.model.jobs.array_indices"},
}
"""What people look at, and the modules of ours that it takes besides COMMON."""


def with_rooms(modules: set[str]) -> set[str]:
    """With the packages above these modules."""
    return {".".join(module.split(".")[:end]) for module in modules for end in range(1, module.count(".") + 2)}


@pytest.mark.parametrize(
    "line",
    [
        "ps --all --json", "status --json", "devices --json", "why {ended} --json", "wait {ended}", "logs {ended}",
        "cancel {waiting}", "submit --gpus 2 --time 2h --env A=b -- true", "submit {script}",
    ],
)  # fmt: skip
def test_a_command_that_scripts_run_often_loads_what_it_needs_and_no_more(box: Box, line: str, tmp_path: Path) -> None:
    ended = box.submit("--gpus", "0", "--", "echo", "done")
    box.ended(ended)
    waiting = box.submit("--hold", "--", "true") if "{waiting}" in line else ""
    (script := tmp_path / "job.sh").write_text("#!/bin/sh\ntrue\n")
    words = [word.format(ended=ended, waiting=waiting, script=script) for word in line.split()]
    loaded = modules_of([CORRAL, *words], box)
    assert {name for name in loaded if name.partition(".")[0] == "corral"} <= with_rooms(COMMON | OWN[words[0]])
    assert {name.partition(".")[0] for name in loaded} & SLOW == set()


def test_a_table_loads_what_it_needs_and_no_more(box: Box) -> None:
    named = some_jobs(box)
    for line, needed in TABLES.items():
        loaded = modules_of([CORRAL, *line.format(**named).split()], box)
        assert {name for name in loaded if name.partition(".")[0] == "corral"} <= with_rooms(COMMON | needed), line
        assert {name.partition(".")[0] for name in loaded} & SLOW <= {"shlex"}, line


def some_jobs(box: Box) -> dict[str, str]:
    """The ids of one that has failed, and of an array that waits."""
    failed = box.submit("--gpus", "0", "--name", "two words", "--", "false")
    array = box.submit("--hold", "--array", "0-1", "--", "sh", "-c", "true; true")
    box.ended(failed)
    return {"ended": failed, "array": array}


LINES = [line for line in TABLES if not line.startswith("submit")]
LINES += [
    "ps --elements",
    "ps --array {array}",
    "ps --limit 1",
    "ps --sort -submitted",
    "ps --all --no-header --columns id,node,gpu,command,reason",
]
LINES += ["ps --all --json --sort id", "show {ended} --json", "show {array} --json", "nodes --json", "why {array}_0"]


def test_what_people_look_at_is_printed(box: Box) -> None:
    named = some_jobs(box)
    for line in LINES:
        done = box.run(*line.format(**named).split(), cwd=None)
        assert (done.returncode, bool(done.stdout)) == (0, True), (line, done.stderr)


def test_what_is_said_of_an_array_is_how_many_jobs_it_has_and_which(box: Box) -> None:
    # A share takes the model, and whole GPUs do without.
    for gpus in ("1", "0.5"):
        done = box.run("submit", "--hold", "--gpus", gpus, "--array", "0-1", "--", "true", cwd=None)
        array = done.stdout.strip()
        assert done.stderr == f"corral: 2 jobs: {array}_0 to {array}_1\n"


def test_the_tables_are_those_of_the_rows_that_the_library_has(box: Box) -> None:
    ended, array = some_jobs(box).values()
    with Client(box.home) as client:

        def all_jobs() -> list[str]:
            return job_lines(oldest_first(client.jobs.list(all=True)), places_of(client.devices.list()), time.time())

        def shown() -> list[str]:
            return list(detail_lines(client.jobs.get(ended), client.jobs.why(ended), time.time(), None))

        tables: dict[str, Callable[[], list[str]]] = {
            "ps --all --elements": all_jobs,
            "status": lambda: [*status_lines(client.server(), client.devices.list()), f"server: {box.home}"],
            "devices": lambda: device_lines(client.devices.list()),
            "nodes": lambda: node_lines(client.nodes.list()),
            "queues": lambda: queue_lines(client.queues()),
            f"why {ended}": lambda: explained(client.jobs.why(ended)),
            f"why {array}_0": lambda: explained(client.jobs.why(f"{array}_0")),
            f"show {ended}": shown,
        }
        # One at a time, as times go on.
        for line, rows in tables.items():
            box.until(partial(lambda line, rows: rows() == box.ok(*line.split()).splitlines(), line, rows))


def test_the_version_is_told_without_a_client(box: Box) -> None:
    loaded = modules_of([CORRAL, "--version"], box)
    assert not {"corral.client", "socket", *SLOW} & loaded


def modules_of(command: list[str], box: Box) -> set[str]:
    """What Python loads to run it, which has to go well."""
    told = subprocess.run([sys.executable, "-X", "importtime", *command], capture_output=True, text=True, env=box.env)
    assert told.returncode == 0, told.stderr
    before, _, after = told.stderr.rpartition("| site\n")
    assert before
    return set(re.findall(r"^import time:[ \d]+\|[ \d]+\| +(\S+)$", after, re.MULTILINE))


def test_ctrl_c_ends_a_command_that_follows_a_log_without_a_word(box: Box) -> None:
    waiting = box.submit("--hold", "--", "true")
    with box.start("logs", "-f", waiting) as command:
        line_of(command.stderr, "has no log until it starts")
        command.send_signal(signal.SIGINT)
        told = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, *told) == (130, "", "")


def test_a_reader_that_goes_away_ends_a_command_without_a_word(box: Box) -> None:
    long = box.submit("--gpus", "0", "--", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x")
    box.ended(long)
    with box.start("logs", long) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.read(1)
        command.stdout.close()
        assert (command.stderr.read(), command.wait(PATIENCE_S)) == ("", 1)
