"""Checks of a submission whose program gets its input from a client."""

from corral.core.model.errors import Refused
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.submission import Submission
from corral.declared.field_limits import check_ranges


def check_input(submission: Submission) -> None:
    """Raises Refused if the job cannot be sent input as it asks for."""
    field = "stdin" if submission.stdin else "terminal"
    if not submission.stdin and submission.terminal is None:
        return
    if submission.stdin and submission.terminal is not None:
        raise Refused("stdin: a terminal is its program's standard input already; leave out stdin", field="stdin")
    if submission.input is not None:
        raise Refused(f"input: its standard input is sent already; leave out {field} or input", field="input")
    if submission.kind is not JobKind.RUN:
        raise Refused(f"{field}: nothing runs here that could read input; leave it out", field=field)
    if submission.elements is not None:
        raise Refused(f"{field}: input goes to one job, and an array is several; leave out one of them", field=field)
    if submission.terminal is None:
        return
    check_ranges(submission.terminal)
    for name, path in (("output", submission.output), ("error", submission.error)):
        if path is not None:
            raise Refused(f"{name}: what a program writes goes to its terminal; leave out one of them", field=name)
