"""Command lines that are run in this process."""

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from corral.cli.app import run


class Ran(NamedTuple):
    """What a command wrote, and its exit code."""

    code: int
    out: str
    err: str


def ran(*words: str) -> Ran:
    """The command, to its end. Raises what it raises, such as Refused."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(words)
    return Ran(code, out.getvalue(), err.getvalue())
