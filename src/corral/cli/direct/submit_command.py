"""`corral submit` of a command or a script with the options that most have."""

from __future__ import annotations

from corral.cli.direct.plain_script import plain_script
from corral.cli.direct.words import read
from corral.cli.screen import print_json, say, write_lines
from corral.client.address import find_address
from corral.client.plain_submission import plain_submission
from corral.client.transport import Transport
from corral.model.units import count_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def submit_command(*, words: Sequence[str], after_dashes: bool, dry_run: bool, json: bool, **flags: Any) -> int | None:
    """Queue a command or a script, and print its id. None where it is only tried, or its flags need more."""
    body = None if dry_run else plain_body(words, flags, after_dashes=after_dashes)
    if body is None:
        return None
    answer = Transport(find_address()).post("/jobs", body)
    tell(answer["id"], answer.get("notes", ()), json=json)
    if "array" in body and not json:
        tell_elements(answer["id"], body["array"]["indices"])
    return 0


def plain_body(words: Sequence[str], flags: Mapping[str, Any], *, after_dashes: bool) -> dict[str, Any] | None:
    """What is sent for a command or a script and these flags; None where that takes the model."""
    given = _said(flags)
    command, text = list(words), ""
    if not after_dashes:
        script = plain_script(words[0], words[1:])
        if script is None:
            return None
        command, header, text = script
        for line in reversed(header):  # the last line says it, where several do
            said = read(["submit", *line, "--", "true"])
            if said is None or said[1]["words"] != ["true"] or said[1]["json"] or said[1]["dry_run"]:
                return None
            given = _said(said[1]) | given
    given = {name: value for name, value in given.items() if name not in ("words", "after_dashes")}
    variables = [one.partition("=") for one in given.pop("env", ())]
    if not all(name and equals for name, equals, _ in variables):
        return None
    if variables:
        given["env"] = {name: value for name, _, value in variables}
    body = plain_submission(command, given)
    return body if body is None or after_dashes else {**body, "script": True, "script_text": text}


def _said(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None and value is not False}


def tell_elements(job_id: str, indices: Sequence[int]) -> None:
    """Say how many jobs an array has, and which."""
    last = f" to {job_id}_{indices[-1]}" if len(indices) > 1 else ""
    say(f"{count_of(len(indices), 'job')}: {job_id}_{indices[0]}{last}")


def tell(job_id: str, notes: Sequence[str], *, json: bool) -> None:
    """Print the id of a job that was submitted, and say what there is to know."""
    for note in notes:
        say(note)
    if json:
        print_json({"id": job_id})
    else:
        write_lines(job_id)
