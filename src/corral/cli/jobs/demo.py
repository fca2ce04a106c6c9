"""`corral demo`: run a temporary server and a few real jobs that show waiting, priority and failure."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import corral
from corral.cli.commands import learning
from corral.cli.direct.explain_job import explained
from corral.cli.jobs.endings import ending_of
from corral.cli.local.doctor import devices_here
from corral.cli.local.server import daemon_command, described_box, start_detached, stop_server
from corral.cli.screen import painted, say, typed, width, wrapped, write_painted
from corral.cli.server_part import require_server_part
from corral.cli.tables.job_rows import job_lines, oldest_first
from corral.client import Client, JobRow
from corral.client.submitting.options import RequestOptions
from corral.client.submitting.request import submission
from corral.core.model.errors import BackendFailed, Conflict, CorralError
from corral.core.model.home import Home
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.plan import WaitReason
from corral.core.model.units import count_of
from corral.formatting.job_words import Place, job_place, places_of

LONGEST_S = 300.0
_LOOK_S = 0.25
_WAITED = "waited"
"""A file in the home. The first job ends only after this file exists, so other jobs wait on a slow machine, too."""


@dataclass(frozen=True)
class Act:
    """One job of the demonstration. `gpus` 0 means none, None all of them. `after` names an earlier act."""

    name: str
    script: str
    gpus: int | None = 1
    priority: int = 5
    after: str | None = None
    array: str | None = None


ACTS = (
    Act(
        "train",
        'for i in 1 2 3; do echo "step $i on $CUDA_VISIBLE_DEVICES"; sleep 1; done; '
        f'until [ -e "$CORRAL_HOME/{_WAITED}" ]; do sleep 0.1; done',
        gpus=None,
    ),
    Act("evaluate", "echo evaluating; sleep 1", gpus=None),
    Act("urgent", "echo overtaking; sleep 1", gpus=None, priority=1),
    Act("broken", "echo 'no such data set: /data/imagenet' >&2; exit 3"),
    Act("report", "echo 'the training has ended well'", gpus=0, after="train"),
    Act("hopeless", "echo never printed", after="broken"),
    Act("sweep", 'echo "element $CORRAL_ARRAY_INDEX"; sleep 1', array="0-3%2"),
)


def demo(given: learning.DemoCommand) -> None:
    """Run `corral demo`."""
    require_server_part("demo")
    home = Home(Path(tempfile.mkdtemp(prefix="corral-demo-")))
    with _server(home, keep=given.keep) as described, Client(home.root) as client:
        ids = _submit_all(client)
        _tell_why_it_waits(client, ids["evaluate"])
        (home.root / _WAITED).touch()
        _show_until_ended(client)
        _tell_what_was_seen(client, ids)
    _say_what_next(home, keep=given.keep, described=described)


@contextmanager
def _server(home: Home, *, keep: bool) -> Iterator[bool]:
    """A server in `home`, on real GPUs if all are free. Afterwards it is removed with its home, unless it is kept.

    Yields whether its devices are mock devices.
    """
    done = False
    pid, described = _start(home)
    try:
        yield described
        done = True
    finally:
        if not (keep and done):
            with suppress(CorralError):
                cancel_all(home)
            stop_server(home, pid)
            shutil.rmtree(home.root, ignore_errors=True)


def _start(home: Home) -> tuple[int, bool]:
    count, source = devices_here()
    if count:
        pid = start_detached(home, daemon_command(home, None, None))
        with Client(home.root) as client:
            free = sum(device.state == "free" for device in client.devices.list())
        if free == count:
            _write(f"{count_of(count, 'GPU')} of this machine, {source}")
            return pid, False
        stop_server(home, pid)
        source = f"{free} of the {count_of(count, 'GPU')} of this machine are free, and others are at work here"
    _write(source, "so the demo uses eight mock GPUs; the jobs are real")
    return start_detached(home, daemon_command(home, described_box(), None)), True


def cancel_all(home: Home) -> None:
    """End every job of the server in this home, and wait until none is left."""
    with Client(home.root) as client:
        for row in client.jobs.list(limit=None):
            with suppress(Conflict):  # it has ended in the meantime
                client.jobs.cancel(row.id)
        client.wait([row.id for row in client.jobs.list(limit=None)], LONGEST_S)


def _submit_all(client: Client) -> dict[str, str]:
    """Queue every act. Return the id of each by its name."""
    whole_machine = len(client.devices.list())
    ids: dict[str, str] = {}
    for act in ACTS:
        ids[act.name] = client.submit(_submission_of(act, whole_machine, ids)).id
    return ids


def _submission_of(act: Act, whole_machine: int, ids: Mapping[str, str]) -> Submission:
    options: RequestOptions = {
        "name": act.name,
        "gpus": whole_machine if act.gpus is None else act.gpus,
        "priority": act.priority,
        "after": [ids[act.after]] if act.after else [],
        "array": act.array,
    }
    return submission(["sh", "-c", act.script], options)


def _tell_why_it_waits(client: Client, job_id: str) -> None:
    """Print the answer of `why` for a waiting job, once the scheduler has considered it."""
    deadline = time.monotonic() + LONGEST_S
    while client.jobs.get(job_id).wait in (None, WaitReason.NOT_REACHED) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    explanation = client.jobs.why(job_id)
    _write(f"{typed()} why {job_id}")
    _write(*(f"  {line}" for reason in explained(explanation) for line in wrapped(reason, width() - 2)), "")


def _show_until_ended(client: Client) -> None:
    """Show the live table on a terminal, else a line for each step. Raises BackendFailed if it lasts too long."""
    places = places_of(client.devices.list())
    deadline = time.monotonic() + LONGEST_S
    with _display(places) as show:
        while True:
            rows = client.jobs.list(all=True, limit=None)
            show(rows)
            if all(row.ended for row in rows):
                return
            if time.monotonic() > deadline:
                raise BackendFailed(f"the demo did not end within {LONGEST_S:g} s; `corral doctor` may show why")
            time.sleep(_LOOK_S)


@contextmanager
def _display(places: Mapping[str, Place]) -> Iterator[Callable[[Sequence[JobRow]], None]]:
    if not sys.stdout.isatty():
        yield _Steps(places).show
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(no_color=bool(os.environ.get("NO_COLOR"))), auto_refresh=False) as live:

        def show(rows: Sequence[JobRow]) -> None:
            table = "\n".join(job_lines(oldest_first(rows), places, time.time()))
            live.update(Text.from_ansi(table), refresh=True)

        yield show


class _Steps:
    """Prints a line for each step of a job that lasts until the next look. Ends come before starts."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places
        self._seen: dict[str, str] = {}

    def show(self, rows: Sequence[JobRow]) -> None:
        for row in sorted(rows, key=lambda row: (not row.ended, row.sequence or 0, row.id)):
            if row.phase != "STARTING" and self._seen.get(row.id) != row.phase:
                self._seen[row.id] = row.phase
                _write(f"{row.id:<4} {row.name:<9} {row.phase:<9} {job_place(row, self._places)}")


def _tell_what_was_seen(client: Client, ids: Mapping[str, str]) -> None:
    rows = {row.id: row for row in client.jobs.list(all=True, limit=None)}
    broken, hopeless = rows[ids["broken"]], rows[ids["hopeless"]]
    log = "".join(client.jobs.logs(broken.id)).strip()
    _write("", painted("what you have seen", "bold"))
    _write(f"waiting   why {ids['evaluate']}: {'; '.join(explained(client.jobs.why(ids['evaluate'])))}")
    _write(f"priority  {_order(rows[ids['urgent']], rows[ids['evaluate']])}")
    _write(f"failure   {ending_of(broken)}; its log says: {log}")
    _write(f"          {ending_of(hopeless)}")


def _order(urgent: JobRow, patient: JobRow) -> str:
    ahead = (urgent.started_at or 0.0) < (patient.started_at or 0.0)
    did = "started before" if ahead else "did not start before"
    later, earlier = f"{urgent.name} (priority {urgent.priority})", f"{patient.name} (priority {patient.priority})"
    return f"{later} {did} {earlier}, which was submitted earlier"


def _say_what_next(home: Home, *, keep: bool, described: bool) -> None:
    mock = " --mock" if described else ""
    run = "run --gpus 1 -- " + ("sh -c 'echo $CUDA_VISIBLE_DEVICES'" if described else "nvidia-smi -L")
    pages = ["dashboard"] if (Path(corral.__file__).parent / "pages" / "index.html").is_file() else []
    steps = ["status", *pages, run, "ps --all", "--help", "down"]
    _write("", painted("what to type next", "bold"))
    if keep:
        _write(f"export CORRAL_HOME={home.root}")
    else:
        steps.insert(0, f"up --detach{mock}")
    _write(*(f"{typed()} {step}" for step in steps))
    if keep:
        _write(f"unset CORRAL_HOME; rm -r {home.root}")
        say(f"the server keeps running until `{typed()} down`; the last line above removes its files")


def _write(*lines: str) -> None:
    write_painted(*lines)
    sys.stdout.flush()
