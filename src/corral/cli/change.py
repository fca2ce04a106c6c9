"""Commands that change jobs: cancel, hold, release, requeue. Of many jobs at once, each asks first."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from corral.cli.flag_classes import taking
from corral.cli.screen import command_group, example, print_json, say, write_lines
from corral.cli.states import phases_of
from corral.client import ChangedJobs, Client
from corral.model.errors import Refused
from corral.model.job_choice import JobChoice
from corral.model.printable import printable
from corral.model.units import count_of

AT_ONCE = 10_000
"""The most jobs that a server changes in one request."""

_RANGE = re.compile(r"(\d+)_\[?([\d,:-]+)\]?")

Verb = Literal["cancel", "hold", "release", "requeue"]

JobIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Job ids. An array's id stands for all its jobs, 17_3-9 for some of them."),
]
app = command_group()


@dataclass(frozen=True)
class ChangeFlags:
    """What chooses jobs, whether to ask, and how to answer. None means that a flag was not given."""

    user: Annotated[
        str | None,
        typer.Option("--user", "-u", metavar="NAME|me", help="Jobs of this user; of others for administrators only."),
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", metavar="PATTERN", help="Jobs of this name, such as 'sweep-*'.")
    ] = None
    array: Annotated[str | None, typer.Option("--array", metavar="ID", help="Jobs of this array.")] = None
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-t", metavar="STATE", help="Jobs in this state, such as pending,running."),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, however many jobs these are.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False

    def choice(self) -> JobChoice:
        """Which jobs the flags choose. Raises Refused."""
        phases = () if self.state is None else phases_of(self.state)
        return JobChoice(user=self.user, name=self.name, array=self.array, phase=phases)


@app.command(epilog=example("corral cancel 17 18_3-9", "corral cancel --name 'sweep-*' --state pending"))
@taking(ChangeFlags)
def cancel(flags: ChangeFlags, ids: JobIds = None) -> None:
    """Cancel jobs: stop running ones, remove waiting ones.

    All processes of a running job get SIGTERM, then SIGKILL after a grace period (the setting kill_grace).

    Options choose among your own jobs, or among those of the ids. If they find more than one, you are asked first.
    """
    _change("cancel", "cancelled", ids or (), flags)


@app.command(epilog=example("corral hold 17", "corral hold --user me"))
@taking(ChangeFlags)
def hold(flags: ChangeFlags, ids: JobIds = None) -> None:
    """Keep waiting jobs from starting until `corral release`.

    Options choose among your own jobs, or among those of the ids. If they find more than one, you are asked first.
    """
    _change("hold", "held", ids or (), flags)


@app.command(epilog=example("corral release 17", "corral release --name 'sweep-*'"))
@taking(ChangeFlags)
def release(flags: ChangeFlags, ids: JobIds = None) -> None:
    """Let jobs on hold start again, or end reservations.

    Options choose among your own jobs on hold, or among those of the ids. If they find more than one, you are asked
    first. A reservation ends by its id, or with --state running.
    """
    _change("release", "released", ids or (), flags)


@app.command(epilog=example("corral requeue 17", "corral requeue --array 17 --state failed"))
@taking(ChangeFlags)
def requeue(flags: ChangeFlags, ids: JobIds = None) -> None:
    """Run jobs again: those that run, failed or were lost.

    Running ones are stopped and queued. Options choose among your own jobs that failed or were lost (with --state also
    others), or among those of the ids. If they find more than one, you are asked first.
    """
    _change("requeue", "requeued", ids or (), flags)


def _change(verb: Verb, done: str, ids: Sequence[str], flags: ChangeFlags) -> None:
    named = [one for text in ids for one in elements(text)]
    chosen = flags.choice()
    if not named and not chosen.narrows:
        raise Refused(f"name jobs to {verb}, or choose them: --user me is all of yours, --name 'sweep-*' some of them")
    with Client() as client:
        if chosen.narrows and not flags.yes:
            changed = _change_agreed(client, verb, named, chosen)
        else:
            changed = _each(client, verb, named, chosen)
    if flags.json:
        print_json(changed)
    else:
        write_lines(*(f"{done} {job_id}" for job_id in changed.ids))
    for one in changed.unchanged:
        say(one.reason)
    raise typer.Exit(1 if {one.id for one in changed.unchanged} & set(named) else 0)


def _change_agreed(client: Client, verb: Verb, named: Sequence[str], chosen: JobChoice) -> ChangedJobs:
    """Change what the options choose; if that is more than one job, once the user has agreed to it."""
    found = _each(client, verb, named, chosen, dry_run=True)
    if not found.ids:
        if not found.unchanged:
            say(f"there is no such job to {verb}")
        return found
    if len(found.ids) > 1:
        _ask(verb, found)
    # These and no others: more may have come meanwhile.
    changed = _each(client, verb, found.ids, JobChoice())
    return ChangedJobs(changed.ids, (*found.unchanged, *changed.unchanged), changed.users, changed.phases)


def _ask(verb: str, found: ChangedJobs) -> None:
    """Raises Refused unless somebody answers yes."""
    phases = ", ".join(f"{count} {phase}" for phase, count in found.phases.items())
    what = f"{verb} {count_of(len(found.ids), 'job')} of {' and '.join(found.users)} ({phases})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refused(f"this would {what}, and nobody can be asked here; add --yes to do it")
    sys.stderr.write(f"{printable(what)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        say("nothing was changed")
        raise typer.Exit(1)


def _each(client: Client, verb: Verb, named: Sequence[str], chosen: JobChoice, *, dry_run: bool = False) -> ChangedJobs:
    """What came of it all; a server takes AT_ONCE jobs in a request, and then tells where the next begins."""
    answers: list[ChangedJobs] = []
    for start in range(0, max(1, len(named)), AT_ONCE):
        before = None
        while True:
            answers.append(
                client.jobs.change(
                    verb,
                    named[start : start + AT_ONCE],
                    user=chosen.user,
                    name=chosen.name,
                    array=chosen.array,
                    phase=chosen.phase,
                    before=before,
                    dry_run=dry_run,
                )
            )
            before = answers[-1].next
            if before is None:
                break
    return _merged(answers)


def _merged(answers: Sequence[ChangedJobs]) -> ChangedJobs:
    phases: Counter[str] = Counter()
    for one in answers:
        phases.update(one.phases)
    return ChangedJobs(
        tuple(job_id for one in answers for job_id in one.ids),
        tuple(job for one in answers for job in one.unchanged),
        tuple(dict.fromkeys(user for one in answers for user in one.users)),
        dict(phases),
    )


def elements(text: str) -> Iterator[str]:
    """The ids that an argument stands for: 17_3-5, 17_3,4,5 and 17_[3-5] are 17_3, 17_4 and 17_5. Raises Refused."""
    match = _RANGE.fullmatch(text)
    if match is None or match[2].isdecimal():
        yield text
        return
    from corral.client.array_indices import parse_array

    yield from (f"{match[1]}_{index}" for index in parse_array(match[2], field=text).indices)
