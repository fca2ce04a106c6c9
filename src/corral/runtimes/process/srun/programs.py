"""What the server knows of srun: the command lines of its programs, and the file by which jobs find it."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path


def _program(module: str, call: str) -> list[str]:
    """With as little of Python as possible, and without the rest of Corral, as the zygote is started."""
    here = os.path.dirname(os.path.abspath(__file__))
    boot = (
        "import sys;"
        f"sys.path.append({os.path.dirname(here)!r});"
        f"from {os.path.basename(here)} import {module};"
        f"{module}.main({call})"
    )
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", boot]


def member_program() -> tuple[str, ...]:
    """What runs on a member that waits for the script's srun."""
    return tuple(_program("member", ""))


def script_program(command: Sequence[str]) -> tuple[str, ...]:
    """What runs the script on rank 0 of a gang."""
    return (*_program("script", "sys.argv[1:]"), *command)


def install(directory: Path) -> Path:
    """Make an executable `srun` in this directory, for any user; its path. Raises OSError."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    text = f'#!/bin/sh\nexec {shlex.join(_program("command", "sys.argv[1:]"))} "$@"\n'
    draft = directory / f".srun.{os.getpid()}"
    draft.write_text(text)
    draft.chmod(0o755)
    return draft.rename(directory / "srun")
