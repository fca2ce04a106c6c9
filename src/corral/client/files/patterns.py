"""Patterns of files that are left out of an upload: those of options, and of a .corralignore."""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from pathlib import Path

from corral.core.model.errors import Refused

IGNORE_FILE = ".corralignore"
_MOST_BYTES = 256 * 1024

LeavesOut = Callable[[str, bool], bool]


def patterns_in(directory: str) -> tuple[str, ...]:
    """The patterns in a directory's .corralignore, without empty lines and comments. Raises Refused."""
    path = Path(directory) / IGNORE_FILE
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}", field="upload") from None
    if len(text) > _MOST_BYTES:
        raise Refused(f"{path} is longer than {_MOST_BYTES} characters; shorten it", field="upload")
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def leaving_out(patterns: Iterable[str]) -> LeavesOut:
    """Whether a path is left out, as a function of the path and of whether it is a directory.

    A pattern with / inside is for paths from the top of the directory, any other is for names at every depth. With /
    at its end it is for directories. What is in a directory that is left out is left out with it. Raises Refused.
    """
    of: dict[tuple[bool, bool], list[str]] = {}
    for pattern in patterns:
        if pattern.startswith("!"):
            raise Refused(f"the pattern {pattern!r} begins with !: nothing can be taken back in; narrow the pattern")
        plain = pattern.removeprefix("./").rstrip("/")
        if not plain:
            raise Refused(f"the pattern {pattern!r} leaves out everything; name files or directories in it")
        of.setdefault(("/" in plain, pattern.endswith("/")), []).append(translate(plain.lstrip("/")))
    matches = {kind: re.compile("|".join(f"(?:{one})" for one in some)).match for kind, some in of.items()}

    def leaves_out(path: str, is_directory: bool) -> bool:
        name = path.rpartition("/")[2]
        return any(
            match(path if from_top else name) is not None
            for (from_top, of_directories), match in matches.items()
            if is_directory or not of_directories
        )

    return leaves_out
