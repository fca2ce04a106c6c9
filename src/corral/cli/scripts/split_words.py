"""Detect a NAME=VALUE in the place of a command: a shell splits braces without quotes into several words."""

import re

from corral.core.model.errors import Refused

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


def refuse_assignment(word: str) -> None:
    """Raises Refused for a NAME=VALUE in the place of a command or a script."""
    if (match := _ASSIGNMENT.match(word)) is not None:
        name = match[1]
        raise Refused(
            f"{word[:80]} is neither a command nor a script; a shell makes several words of {name}={{a,b}}, and of a "
            f"value with spaces: quote it, as in --env '{name}={{a,b}}' (a variable for the command: --env {word[:80]})"
        )
