"""The server's part of srun and scontrol: their command lines, and the files by which jobs find them."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import corral

_ROOT = str(Path(corral.__file__).parent.parent)


def _program(module: str, call: str, *, beside: str = "") -> list[str]:
    """Return the command of a module with as little of Python as possible, and without the rest of Corral.

    The module finds other packages that it needs `beside`.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    boot = (
        "import sys;"
        f"sys.path += {[os.path.dirname(here), *([beside] if beside else [])]!r};"
        f"from {os.path.basename(here)} import {module};"
        f"{module}.main({call})"
    )
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", boot]


def member_program() -> tuple[str, ...]:
    """Return the program of a member that waits for the script's srun."""
    return tuple(_program("member", ""))


def script_program(command: Sequence[str]) -> tuple[str, ...]:
    """Return the program that runs the script on rank 0 of a gang."""
    return (*_program("script", "sys.argv[1:]"), *command)


def install(directory: Path) -> tuple[Path, ...]:
    """Create an executable `srun` and `scontrol` in this directory, for any user. Return their paths. Raises
    OSError.
    """
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    calls = {
        "srun": _program("command", "sys.argv[1:]"),
        "scontrol": _program("scontrol", "sys.argv[1:]", beside=_ROOT),
    }
    return tuple(_install(directory, name, call) for name, call in calls.items())


def _install(directory: Path, name: str, call: Sequence[str]) -> Path:
    draft = directory / f".{name}.{os.getpid()}"
    draft.write_text(f'#!/bin/sh\nexec {shlex.join(call)} "$@"\n')
    draft.chmod(0o755)
    return draft.rename(directory / name)
