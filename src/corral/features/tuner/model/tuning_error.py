"""The text why a task or an experiment failed: one line for all users, and below it lines of the server's log.

Only the job's owner and administrators may read a log, so other users get the first line alone.
"""


def for_everybody(error: str | None) -> str | None:
    """The first line of an error message."""
    return None if error is None else error.partition("\n")[0]


def shortened(error: str, most: int) -> str:
    """An error message in at most `most` characters: its first line, and the end of the others, which says most.

    The other lines get three quarters of the characters, and the first line gets the rest.
    """
    if len(error) <= most:
        return error
    said, _, lines = error.partition("\n")
    if not lines:
        return said[:most]
    said = said[: max(most // 4, most - 1 - len(lines))]
    return f"{said}\n{lines[len(said) + 1 - most :]}"
