"""`corral cancel`, `hold`, `release` and `requeue` of jobs given by id. Other choices of jobs need the model."""

from __future__ import annotations

from corral.cli.direct.named_job import is_id, jobs_to_change
from corral.cli.screen import complain, print_json, say, write_lines
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport, is_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Literal

    from corral.cli.commands import changing
    from corral.cli.commands.changing import ChangeFlags

    Verb = Literal["cancel", "hold", "release", "requeue"]

AT_ONCE = 10_000
"""The most jobs that a server changes in one request."""

DONE: dict[Verb, str] = {"cancel": "cancelled", "hold": "held", "release": "released", "requeue": "requeued"}
"""The word for a job that each command has changed."""


def cancel(given: changing.CancelCommand) -> int:
    """Run `corral cancel`."""
    return _change("cancel", given.ids, given.flags)


def hold(given: changing.HoldCommand) -> int:
    """Run `corral hold`."""
    return _change("hold", given.ids, given.flags)


def release(given: changing.ReleaseCommand) -> int:
    """Run `corral release`."""
    return _change("release", given.ids, given.flags)


def requeue(given: changing.RequeueCommand) -> int:
    """Run `corral requeue`."""
    return _change("requeue", given.ids, given.flags)


def _change(verb: Verb, ids: Sequence[str] | None, flags: ChangeFlags) -> int:
    """Change the jobs with these ids, or those that flags choose. Ids alone cause no question. Return the exit code."""
    if ids and flags == type(flags)(yes=flags.yes, json=flags.json):
        return change_named(verb, ids, json=flags.json)
    from corral.cli.jobs.change import change_chosen

    return change_chosen(verb, ids or (), flags)


def change_named(verb: Verb, ids: Sequence[str], *, json: bool) -> int:
    """Change these jobs and print which were changed. Return the exit code."""
    transport = Transport(find_address())
    named = list(ids)
    if not all(map(is_id, named)):
        named = jobs_to_change(transport, named)
    if not all(map(is_plain, named)):
        from corral.client.submitting.arguments import job_ids

        named = list(job_ids(named))
    changed: dict[str, Any] = {"ids": [], "unchanged": [], "users": [], "phases": {}, "next": None, "notes": []}
    for answer in _answers(transport, verb, named):
        changed["unchanged"] += answer["unchanged"]
        for key in ("ids", "users", "notes"):
            changed[key] = list(dict.fromkeys([*changed[key], *answer.get(key, ())]))
        for phase, count in answer["phases"].items():
            changed["phases"][phase] = changed["phases"].get(phase, 0) + count
    tell(verb, changed, json=json)
    if not (changed["ids"] or changed["unchanged"]):
        from corral.cli.jobs.change import say_none_found

        return int(say_none_found(verb))
    return int(any(one["id"] in named for one in changed["unchanged"]))


def _answers(transport: Transport, verb: Verb, named: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the server's answers. It changes AT_ONCE jobs in a request, and its answer names the start of the next."""
    for start in range(0, len(named), AT_ONCE):
        body = {"ids": named[start : start + AT_ONCE], "phase": [], "dry_run": False}
        while True:
            answer = transport.post(f"/jobs/{verb}", body)
            yield answer
            if answer.get("next") is None:
                break
            body["before"] = answer["next"]


def tell(verb: Verb, changed: dict[str, Any], *, json: bool) -> None:
    """Print which jobs were changed, and say why the others were not."""
    if json:
        print_json(changed)
    else:
        write_lines(*(f"{DONE[verb]} {job_id}" for job_id in changed["ids"]))
    for one in changed["unchanged"]:
        complain(one["reason"])
    for note in changed["notes"]:
        say(note)
