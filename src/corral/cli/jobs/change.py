"""Commands that change jobs: cancel, hold, release, requeue, update.

Before a command changes several jobs, it asks the user.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

from corral.cli.commands import changing
from corral.cli.commands.changing import ChangeFlags
from corral.cli.direct.change_jobs import AT_ONCE, change_named, tell
from corral.cli.direct.named_job import jobs_to_change
from corral.cli.screen import complain_of, exit_code_of, say, write_lines
from corral.cli.tables.states import phases_of
from corral.client import ChangedJobs, Client
from corral.client.connecting.transport import Transport
from corral.core.model.errors import Conflict, Refused
from corral.core.model.jobs.job_choice import OWN, JobChoice
from corral.core.model.jobs.phase import Phase
from corral.core.model.printable import printable
from corral.core.model.units import count_of, parse_time_limit_s
from corral.wire import to_plain

_LOOKED_AT = 1000
"""The most jobs of other users that are searched to explain why no job was found."""

Verb = Literal["cancel", "hold", "release", "requeue"]

_CHANGED_PHASES: Mapping[Verb, Sequence[Phase]] = {
    "cancel": (Phase.PENDING, Phase.STARTING, Phase.RUNNING),
    "hold": (Phase.PENDING,),
    "release": (Phase.PENDING,),
    "requeue": (Phase.FAILED, Phase.LOST),
}
"""The phases of the jobs that options choose if they name no phase."""


def change_chosen(verb: Verb, ids: Sequence[str], flags: ChangeFlags) -> int:
    """Change the jobs that flags choose, only among those of the ids if there are any. Return the exit code."""
    choices = _choices(flags, ids)
    if not any(chosen.narrows for chosen in choices):
        return _change_unchosen(verb, ids, json=flags.json)
    with Client() as client:
        ids = jobs_to_change(Transport(client.address), ids)
        changed = (_each if flags.yes else _change_agreed)(client, verb, ids, choices)
        others = not (changed.ids or changed.unchanged) and _say_none(client, verb, choices)
    tell(verb, to_plain(changed), json=flags.json)
    return int(others or bool({one.id for one in changed.unchanged} & set(ids)))


def _change_unchosen(verb: Verb, ids: Sequence[str], *, json: bool) -> int:
    """Change the jobs of the ids; without ids, release this shell's reservation. Raises Refused if there is none."""
    reserved = os.environ.get("CORRAL_RESERVATION")
    if ids:
        return change_named(verb, ids, json=json)
    if verb == "release" and reserved:
        from corral.cli.jobs.reserved_shell import release_own

        with Client() as client:
            return release_own(client, reserved, json=json)
    raise Refused(f"name jobs to {verb}, or select them: --user me selects all of yours, --name 'sweep-*' some of them")


def say_none_found(verb: Verb) -> bool:
    """Say that none of the named jobs was found. Return whether other users have such jobs."""
    with Client() as client:
        return _say_none(client, verb, [JobChoice()])


def _choices(flags: ChangeFlags, named: Sequence[str]) -> list[JobChoice]:
    """The jobs that the flags choose, one choice for each user. Raises Refused."""
    users = _users(flags)
    if len(users) > 1 and named:
        raise Refused("--user: with ids only one user can be named; leave out the ids or --user", field="--user")
    return [_choice(flags, user) for user in users or (None,)]


def _choice(flags: ChangeFlags, user: str | None) -> JobChoice:
    phases = () if flags.state is None else phases_of(flags.state)
    name = None if flags.name is None else ",".join(flags.name)
    return JobChoice(user=user, name=name, array=flags.array, phase=phases)


def _users(flags: ChangeFlags) -> tuple[str, ...]:
    """The users in the flags; () if no user is named. Raises Refused for an empty name."""
    named = [] if flags.user is None else [name.strip() for text in flags.user for name in text.split(",")]
    if "" in named:
        raise Refused("--user: a name is empty; write names such as alice,bob, or me", field="--user")
    return tuple(dict.fromkeys(named))


def _change_agreed(client: Client, verb: Verb, named: Sequence[str], choices: Sequence[JobChoice]) -> ChangedJobs:
    """Change the jobs that the options choose. If there are several, ask the user first."""
    found = _each(client, verb, named, choices, dry_run=True)
    if not found.ids:
        return found
    if len(found.ids) > 1:
        _ask(verb, found)
    # Change exactly these jobs, because more may have matched in the meantime.
    changed = _each(client, verb, found.ids, [JobChoice()])
    return replace(changed, unchanged=(*found.unchanged, *changed.unchanged), next=None)


def _say_none(client: Client, verb: Verb, choices: Sequence[JobChoice]) -> bool:
    """Say that nothing was found, and that other users may have such jobs. Return whether they have."""
    for chosen in choices:
        if chosen.user in (None, OWN) and _others_have(client, verb, chosen):
            say(f"none of your jobs to {verb} matches, but jobs of other users do; --user NAME is for administrators")
            return True
    say(f"no job to {verb} matches")
    return False


def _others_have(client: Client, verb: Verb, chosen: JobChoice) -> bool:
    """Whether any user has a job that is chosen. The caller has none."""
    phases = chosen.phase or _CHANGED_PHASES[verb]
    rows = client.jobs.list(all=True, phase=",".join(phases), name=chosen.name, array=chosen.array, limit=_LOOKED_AT)
    if chosen.phase or verb not in ("hold", "release"):
        return bool(rows)
    return any(row.held is (verb == "release") for row in rows)


def _ask(verb: str, found: ChangedJobs) -> None:
    """Raises Refused if nobody can be asked, SystemExit unless the user answers yes."""
    phases = ", ".join(f"{count} {phase}" for phase, count in found.phases.items())
    what = f"{verb} {count_of(len(found.ids), 'job')} of {' and '.join(found.users)} ({phases})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refused(f"this would {what}, and there is no terminal to ask at; add --yes to do it")
    sys.stderr.write(f"{printable(what)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        say("nothing was changed")
        raise SystemExit(1)


def _each(
    client: Client, verb: Verb, named: Sequence[str], choices: Sequence[JobChoice], *, dry_run: bool = False
) -> ChangedJobs:
    """The merged answers. A server changes AT_ONCE jobs in a request, and its answer says where the next one begins."""
    answers: list[ChangedJobs] = []
    for chosen, start in product(choices, range(0, max(1, len(named)), AT_ONCE)):
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
        tuple(dict.fromkeys(job_id for one in answers for job_id in one.ids)),
        tuple(job for one in answers for job in one.unchanged),
        tuple(dict.fromkeys(user for one in answers for user in one.users)),
        dict(phases),
        notes=tuple(dict.fromkeys(note for one in answers for note in one.notes)),
    )


def update(given: changing.UpdateCommand) -> int:
    """Run `corral update`."""
    if given.priority is None and given.time is None and given.name is None and given.queue is None:
        raise Refused("nothing to change; give at least one of --priority, --time, --name and --queue")
    time_limit_s = None if given.time is None else parse_time_limit_s(given.time, field="--time")
    codes = [0]
    told: set[str] = set()
    with Client() as client:
        for job_id in dict.fromkeys(jobs_to_change(Transport(client.address), given.ids)):
            try:
                touched = client.jobs.update(
                    job_id, priority=given.priority, time=time_limit_s, name=given.name, queue=given.queue
                )
            except (Refused, Conflict) as error:
                complain_of(error)
                codes.append(exit_code_of(error))
                continue
            write_lines(*(f"updated {each}" for each in touched if each not in told))
            told.update(touched)
    return max(codes)
