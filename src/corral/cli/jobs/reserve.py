"""GPUs for work that Corral does not start: `reserve` for a login session, `adopt` for a running process."""

import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.cli.commands import running
from corral.cli.jobs.endings import ending_of
from corral.cli.jobs.flags import options_of, spell
from corral.cli.jobs.interrupts import interruptible
from corral.cli.jobs.waiting import ReasonLine
from corral.cli.screen import print_json, say, write_lines
from corral.client import Client, JobRow
from corral.client.submitting.request import submission
from corral.core.model.errors import Conflict, Refused
from corral.core.model.jobs.job import JobKind
from corral.core.model.units import count_of
from corral.formatting.times import clock_time

_FIRST_LOOK_S = 0.02
_LONGEST_PAUSE_S = 1.0


def reserve(given: running.ReserveCommand) -> None:
    """Run `corral reserve`."""
    with Client() as client:
        options = options_of(given.flags, client)
        options["time"] = given.duration
        owner_pid = None if given.detach else session_owner()
        request = submission((), options, kind=JobKind.RESERVE, owner_pid=owner_pid, spell=_spell)
        job = client.submit(request)
        with _cancelled_if_interrupted(job.id), interruptible():
            for note in job.notes:
                say(note)
            row = _when_reserved(client, job.id)
        vendor = next((device.vendor for device in client.devices.list() if device.uuid in row.devices), "")
    write_lines(*exports(row, vendor))
    until = clock_time(None if row.started_at is None else row.started_at + (row.time_limit_s or 0.0))
    say(
        f"job {row.id} reserves {count_of(len(row.devices), 'GPU')} until {until}; to end it: corral release {row.id}; "
        f"unset {' '.join(_variables(row, vendor))}"
    )


def adopt(given: running.AdoptCommand) -> None:
    """Run `corral adopt`."""
    if given.pid in _ancestors():
        raise Refused(
            f"process {given.pid} is your shell or a parent of it, and cancelling the job would end it; "
            "adopt the process that uses the GPU instead",
            field="pid",
        )
    with Client() as client:
        job = client.adopt(given.pid, name=given.name, priority=given.priority)
    if given.json:
        print_json({"id": job.id})
    else:
        write_lines(job.id)


def session_owner() -> int:
    """The process whose end ends this session: its leader, or the parent if another pid namespace hides the leader.

    getsid(2) and getppid(2) return 0 for a process outside the namespace, as in a container. Raises Refused if both are
    hidden.
    """
    owner = os.getsid(0) or os.getppid()
    if owner == 0:
        raise Refused(
            "a container hides this login session, so its end cannot be noticed and the GPUs would not be given back; "
            "use --detach to keep them until the time is up",
            field="owner_pid",
        )
    return owner


def _ancestors() -> list[int]:
    """The pids of this process, its parent, and so on."""
    line = [os.getpid(), os.getppid()]
    while line[-1] > 1:
        try:
            stat = Path(f"/proc/{line[-1]}/stat").read_bytes()
        except OSError:
            break
        # The name stands in parentheses and may contain any characters, parentheses too.
        line.append(int(stat[stat.rfind(b")") + 2 :].split()[1]))
    return line


def exports(row: JobRow, vendor: str = "") -> list[str]:
    """Lines for a shell to evaluate, so that its commands use exactly these GPUs of this vendor."""
    return [f"export {name}={shlex.quote(value)}" for name, value in _variables(row, vendor).items()]


def _variables(row: JobRow, vendor: str) -> dict[str, str]:
    from corral.vendors.registry import vendor_named

    return {
        **vendor_named(vendor).visible(row.devices),
        "CORRAL_JOB_ID": row.id,
        "CORRAL_RESERVATION": row.id,
    }


@contextmanager
def _cancelled_if_interrupted(job_id: str) -> Iterator[None]:
    """Cancel the reservation on an interrupt, so that it does not take GPUs later, when nobody waits for them."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        with Client() as client:  # the usual connection may be in the middle of an answer
            client.jobs.cancel(job_id)
        say(f"reservation {job_id} was cancelled")
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _when_reserved(client: Client, job_id: str) -> JobRow:
    """The row of the reservation, once it holds its GPUs. Raises Conflict if it ends before."""
    line, pause_s = ReasonLine(), _FIRST_LOOK_S
    while True:
        row = client.jobs.get(job_id)
        if row.phase == "RUNNING" or row.ended:
            line.clear()
            break
        if row.phase == "PENDING" and pause_s > 0.2 and (explanation := client.jobs.why(job_id)).considered:
            line.show(explanation)
        time.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)
    if row.ended:
        raise Conflict(ending_of(row))
    return row


def _spell(option: str) -> str:
    return "--for" if option == "time" else spell(option)
