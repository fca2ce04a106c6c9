"""Reads the properties that a job inherits from the submitting process: variables, directory, umask and limits."""

import os
import resource
from collections.abc import Mapping

from corral.core.model.errors import Refused

SENT_LIMITS = ("AS", "CORE", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "STACK")
"""The caller's soft limits that its jobs inherit, if they are not unlimited."""

_OWN = frozenset({"CORRAL_URL", "CORRAL_TOKEN", "CORRAL_CA_FILE", "CORRAL_INSECURE"})
"""Variables by which this process reaches the server. Jobs do not get them: they use the socket, and one is secret."""


_OF_A_SCRIPT = frozenset({"CORRAL_SBATCH"})
"""Variables on how to run one script. They do not apply to jobs that the script submits itself."""


def environment(overrides: Mapping[str, str | None], field: str = "env") -> dict[str, str]:
    """This process's variables with `overrides`, without the variables for reaching the server (the token is secret).

    Variables that are not UTF-8 text are left out, because JSON cannot carry them.
    """
    mine = {
        key: value
        for key, value in os.environ.items()
        if key not in _OWN | _OF_A_SCRIPT and _is_text(key) and _is_text(value)
    }
    for key, value in overrides.items():
        if not key or "=" in key or "\0" in key:
            raise Refused(
                f"{field}: {key!r} is not a variable name; a name is not empty and contains no =", field=field
            )
        if value is None:
            mine.pop(key, None)
        else:
            mine[key] = checked_text(value, field)
    return mine


def soft_limits() -> tuple[tuple[str, int], ...]:
    """The soft limits of this process that are set, as pairs of name and value."""
    limits = ((name, resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0]) for name in SENT_LIMITS)
    return tuple((name, soft) for name, soft in limits if soft != resource.RLIM_INFINITY)


def directory(workdir: str | os.PathLike[str] | None, field: str) -> str:
    """The directory as an absolute path. The server checks that it exists."""
    try:
        return checked_text(os.path.abspath(os.path.expanduser(workdir or ".")), field)
    except FileNotFoundError as error:
        raise Refused(
            f"{field}: your current directory no longer exists; change to another one", field=field
        ) from error


def umask() -> int:
    """The file mode bits that this process withholds."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_text(value: str, field: str) -> str:
    """The text itself. Raises Refused for text that no program can receive, or that JSON cannot carry."""
    if not _is_text(value):
        raise Refused(f"{field}: {value!r} is not valid UTF-8; rename it or leave it out", field=field)
    if "\0" in value:
        raise Refused(f"{field}: {value!r} contains a zero byte, which no program can receive", field=field)
    return value
