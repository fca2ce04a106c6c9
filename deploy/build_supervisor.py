"""Compiles the supervisor of jobs, src/corral/host/runtimes/process/native, with the C compiler of this machine.

    python deploy/build_supervisor.py [--sanitize PROGRAM]

It is also the build hook: `pip install` and the build of a wheel compile it, and the wheel is for this platform alone.
Without a compiler what is installed is a client: no server starts without the supervisor, and `corral doctor` says so.
Only the standard library, but for the hook itself.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # as a program of its own
    BuildHookInterface = object  # type: ignore[assignment, misc]

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src/corral/host/runtimes/process/native"
PROGRAM = SOURCES / "corral-supervisor"

FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wshadow"]
RELEASE = ["-O2", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-s"]
SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
LINKED: tuple[list[str], ...] = (["-static"], [])
"""Linked statically it takes less memory and runs with any C library; not every machine has what that needs."""

_COMPILE_S = 300


class NotCompiled(Exception):
    """The supervisor could not be compiled; says why."""


def compile_supervisor(program: Path = PROGRAM, *, sanitize: bool = False) -> None:
    """Compile it into `program`, which appears whole. Raises NotCompiled."""
    failure = ""
    for linked in [[]] if sanitize else LINKED:
        draft = program.with_name(f".{program.name}.{os.getpid()}")
        sources = sorted(map(str, SOURCES.glob("*.c")))
        command = [*compiler(), *FLAGS, *(SANITIZED if sanitize else RELEASE), *linked, "-o", str(draft), *sources]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotCompiled(f"{command[0]}: {error}") from error
        if done.returncode == 0:
            draft.replace(program)
            return
        draft.unlink(missing_ok=True)
        failure = done.stderr.strip()
    raise NotCompiled(failure)


def compiler() -> list[str]:
    """The C compiler, with the words that $CC gives it."""
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def is_current() -> bool:
    """Whether the program is newer than all that it is made of."""
    sources = [*SOURCES.glob("*.[ch]"), Path(__file__)]
    return PROGRAM.is_file() and PROGRAM.stat().st_mtime >= max(source.stat().st_mtime for source in sources)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Has a wheel, and an editable installation, bring the compiled supervisor."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, where there is a compiler; `version` says whether it is an editable installation."""
        if self.target_name != "wheel":
            return
        try:
            compile_supervisor()
        except NotCompiled as failed:
            PROGRAM.unlink(missing_ok=True)
            self.app.display_warning(f"the supervisor of jobs is not compiled, so no server will start: {failed}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def main(arguments: list[str]) -> int:
    """Compile what is not compiled yet."""
    try:
        if arguments[:1] == ["--sanitize"]:
            compile_supervisor(Path(arguments[1]), sanitize=True)
        elif not is_current():
            compile_supervisor()
    except NotCompiled as failed:
        sys.stderr.write(
            f"the supervisor of jobs cannot be compiled, and no server starts without it: {failed}\n"
            "install a C compiler (on Debian or Ubuntu: sudo apt install gcc libc6-dev), then try again\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
