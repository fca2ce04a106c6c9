"""`corral submit` of a command or a script with the most common options."""

from __future__ import annotations

from corral.cli.commands.job_options import SubmitFlags
from corral.cli.direct.plain_script import plain_script
from corral.cli.reading import UsageError, read_options
from corral.cli.screen import print_json, say, write_lines
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport
from corral.client.submitting.plain_submission import plain_submission
from corral.core.model.units import count_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from corral.cli.commands import running


def submit_command(given: running.SubmitCommand) -> int:
    """Queue a command or a script, and print its id. Rare options need the model. Return the exit code."""
    body = None if given.dry_run else plain_body(given.words, given.flags, after_dashes=given.after_dashes)
    if body is None:
        from corral.cli.jobs.submit import submit

        return submit(given)
    answer = Transport(find_address()).post("/jobs", body)
    tell(answer["id"], answer.get("notes", ()), json=given.json)
    if "array" in body and not given.json:
        tell_elements(answer["id"], body["array"]["indices"])
    return 0


def plain_body(words: Sequence[str], flags: SubmitFlags, *, after_dashes: bool) -> dict[str, Any] | None:
    """The request body for a command or a script with these flags; None if that needs the model."""
    given = _said(flags)
    command, text = list(words), ""
    if not after_dashes:
        script = plain_script(words[0], words[1:])
        if script is None:
            return None
        command, header, text = script
        try:
            for line in reversed(header):  # the last line with an option counts
                given = _said(read_options(SubmitFlags, line)) | given
        except UsageError:
            return None
    variables = [one.partition("=") for one in given.pop("env", ())]
    if not all(name and equals for name, equals, _ in variables):
        return None
    if variables:
        given["env"] = {name: value for name, _, value in variables}
    body = plain_submission(command, given)
    return body if body is None or after_dashes else {**body, "script": True, "script_text": text}


def _said(flags: SubmitFlags) -> dict[str, Any]:
    return {name: value for name, value in vars(flags).items() if value is not None and value is not False}


def tell_elements(job_id: str, indices: Sequence[int]) -> None:
    """Say how many jobs an array has, and their ids."""
    last = f" to {job_id}_{indices[-1]}" if len(indices) > 1 else ""
    say(f"{count_of(len(indices), 'job')}: {job_id}_{indices[0]}{last}")


def tell(job_id: str, notes: Sequence[str], *, json: bool) -> None:
    """Print the id of a submitted job, and say its notes."""
    for note in notes:
        say(note)
    if json:
        print_json({"id": job_id})
    else:
        write_lines(job_id)
