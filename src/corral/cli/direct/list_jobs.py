"""`corral ps`: list jobs, filtered, sorted and shown as the user wants."""

from __future__ import annotations

import gc
import time

from corral.cli.screen import print_json
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport
from corral.core.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.cli.commands import looking


def list_jobs(given: looking.PsCommand) -> int:
    """Print the chosen jobs. JSON has all fields, as the server sends them. Return the exit code."""
    names = None
    if given.columns is not None:
        from corral.cli.tables.job_rows import parse_columns

        names = parse_columns(given.columns)
        if given.json or given.start:
            raise Refused("--columns is for the table of jobs; leave it out with --json and --start", field="--columns")
    if given.watch and given.json:
        raise Refused("--watch is for a terminal and --json for programs; leave one of them out", field="--watch")
    wanted = {
        "all": given.every,
        "user": _joined(given.user, "--user"),
        "phase": ",".join(_phases_named(given.state)) or None,
        "name": _joined(given.name, "--name"),
        "queue": _joined(given.queue, "--queue"),
        "project": _joined(given.project, "--project"),
        "namespace": _joined(given.namespace, "--namespace"),
        "means": checked(given.means, "--means"),
        "array": checked(given.array, "--array"),
        "since": None if (at := moment(given.since)) is None else int(at),
    }
    if not given.watch:
        # All objects made here live until the end. Garbage collection would take as long as making them.
        gc.disable()
    if given.json and not given.start and given.sort is None:
        print_json(Transport(find_address()).get("/jobs", limit=0, **wanted)["jobs"])
    else:
        from corral.cli.tables.job_table import show_jobs

        each = given.elements or given.no_header or given.array is not None
        show_jobs(
            wanted,
            given.sort,
            given.limit or None,
            names,
            header=not given.no_header,
            elements=each,
            start=given.start,
            watch=given.watch,
            json=given.json,
        )
    return 0


def moment(since: str | None) -> float | None:
    """A past moment in Unix seconds. Raises Refused."""
    if since is None:
        return None
    from corral.cli.periods import parse_past

    return parse_past(since, time.time(), field="--since")


def _joined(given: Sequence[str] | None, field: str) -> str | None:
    """The values of a flag, which may be given several times, in the form that the server takes."""
    return None if given is None else checked(",".join(given), field)


def checked(text: str | None, field: str) -> str | None:
    """The text, if it can be sent. Raises Refused."""
    if text is None or text.isascii():
        return text
    from corral.client.submitting.calling_process import checked_text

    return checked_text(text, field)


def _phases_named(states: Sequence[str] | None) -> tuple[str, ...]:
    """The phases for words that name states. Raises Refused."""
    if not states:
        return ()
    from corral.cli.tables.states import phases_of

    return tuple(phase.value for phase in phases_of(states))
