"""Why a task or an experiment failed, as text: a line for everybody, and below it lines of the server's log.

A log is for its job's owner and administrators, so what is told to others ends with the first line.
"""


def for_everybody(error: str | None) -> str | None:
    """The first line of an error message."""
    return None if error is None else error.partition("\n")[0]


def shortened(error: str, most: int) -> str:
    """An error message in at most `most` characters: its first line, and the end of the others, which says the most.

    The others have three quarters of it, and the first line what they leave.
    """
    if len(error) <= most:
        return error
    said, _, lines = error.partition("\n")
    if not lines:
        return said[:most]
    said = said[: max(most // 4, most - 1 - len(lines))]
    return f"{said}\n{lines[len(said) + 1 - most :]}"
