"""Scripts that are stored with their jobs: their checks, and the command that runs them in a container."""

import re
import shlex
from dataclasses import replace

from corral.core.control.submitting.new_jobs import called
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.script_copy import MOST_BYTES, interpreter_of, kept_text, place_of_script, size_of
from corral.core.model.jobs.submission import Submission
from corral.core.model.units import format_bytes
from corral.core.model.view import View

MOST_BYTES_IN_CONTAINER = 120 * 1024
"""The kernel takes no variable of 128 KiB or more."""

SMALL_BYTES = 128 * 1024
MOST_BYTES_OF_USER = 64 * 1024 * 1024
"""The most bytes of larger scripts that the unfinished jobs of a user may have."""

_KEPT_IN = "CORRAL_SCRIPT"
_RUN = 'printf %s "$CORRAL_SCRIPT" > "$CORRAL_SCRATCH/script" && unset CORRAL_SCRIPT && exec {} "$@"'
"""The command in a container, which has no file of this host. The script is in a variable: other users see commands,
but not variables.
"""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def check_script(submission: Submission) -> None:
    """Raise Refused for a script that cannot be stored, and for an invalid commit."""
    if submission.git_commit is not None and _COMMIT.fullmatch(submission.git_commit) is None:
        raise Refused(
            f"git_commit: {submission.git_commit!r:.80} is not a commit; give its full hexadecimal name",
            field="git_commit",
        )
    text = submission.script_text
    if text is None:
        return
    if not submission.script or submission.kind is not JobKind.RUN:
        raise Refused("script_text: the command runs no script; leave it out, or add script", field="script_text")
    if "\0" in text or size_of(text) > MOST_BYTES:
        raise Refused(
            f"script_text: a script has at most {format_bytes(MOST_BYTES)} and no zero byte; leave script_text "
            "out to run the file itself",
            field="script_text",
        )
    if not interpreter_of(text):
        raise Refused(
            "script_text: its first line names no interpreter; begin it with one such as #!/bin/bash",
            field="script_text",
        )


def in_container(submission: Submission) -> Submission:
    """Return the submission of a stored script with a command that writes the script inside the container and runs it.

    Raises Refused for a script that is invalid or too large.
    """
    text = submission.script_text
    if text is None:
        return submission
    check_script(submission)
    if size_of(text) > MOST_BYTES_IN_CONTAINER:
        raise Refused(
            f"script_text: a script for a container has at most {format_bytes(MOST_BYTES_IN_CONTAINER)}, and "
            f"this one has {format_bytes(size_of(text))}; put it into a volume and submit a command",
            field="script_text",
        )
    arguments = submission.command[place_of_script(submission.command, text) + 1 :]
    run = _RUN.format(f'{shlex.join(interpreter_of(text))} "$CORRAL_SCRATCH/script"')
    return replace(
        submission,
        name=submission.name or called(submission),
        command=("sh", "-c", run, "script", *arguments),
        script_text=None,
        env={**submission.env, _KEPT_IN: text},
    )


def refuse_too_much_kept(view: View, submission: Submission, user: str) -> None:
    """Raise Refused if the large scripts of the user's jobs would exceed MOST_BYTES_OF_USER."""
    text = submission.script_text
    if text is None or len(text) <= SMALL_BYTES:
        return
    kept = {kept_text(job.spec.env) for job in view.jobs.values() if job.spec.user == user} | {text}
    total = sum(size_of(one) for one in kept if one is not None and len(one) > SMALL_BYTES)
    if total > MOST_BYTES_OF_USER:
        raise Refused(
            f"script_text: your jobs would keep {format_bytes(total)} of scripts above {format_bytes(SMALL_BYTES)} "
            f"each, and {format_bytes(MOST_BYTES_OF_USER)} is the limit; wait until some have ended, or put "
            "large data into a file that the script reads",
            field="script_text",
        )
