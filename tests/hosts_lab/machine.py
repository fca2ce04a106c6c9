"""A machine of a lab: a process that holds its namespaces, and what runs in them."""

import os
import select
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.engines.kubernetes.control_plane import end_with_parent

READY_S = 30.0
GONE_S = 20.0
COMMAND_S = 60.0
_GROUPS = Path("/sys/fs/cgroup")

Finished = subprocess.CompletedProcess[str]


class Machine:
    """What a first process holds, until `kill`; all that runs in a host of its own PIDs ends with it.

    `words` start that process, which says `ready`. `group` is the cgroup, in each hierarchy, of the machine's
    processes; None leaves them in that of the tests. With `forks` the process is a child of what `words` start.
    """

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        *,
        group: str | None = None,
        forks: bool = False,
        namespaces: Sequence[str] = ("--all",),
    ) -> None:
        self._group = group
        self._namespaces = namespaces
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                [*self._joined(), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it calls the kernel and takes no lock
            )
        self._log = log
        self._forks = forks

    def await_ready(self) -> None:
        """Raises RuntimeError with what the machine said, where it does not come up."""
        assert self._process.stdout is not None
        there, _, _ = select.select([self._process.stdout], [], [], READY_S)
        if not there or self._process.stdout.readline() != "ready\n":
            self.kill()
            raise RuntimeError(f"a machine of the lab does not come up:\n{self._log.read_text()[-3000:]}")

    @property
    def pid(self) -> int:
        """The first process, as it is known outside."""
        if not self._forks:
            return self._process.pid
        own = self._process.pid
        return int(Path(f"/proc/{own}/task/{own}/children").read_text())

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def path(self, path: str) -> Path:
        """Where a file of the machine lies for the tests."""
        return Path(f"/proc/{self.pid}/root{path}")

    def entered(self) -> tuple[str, ...]:
        """What goes before the words of a command for it to run on the machine."""
        return (*self._joined(), "nsenter", *self._namespaces, "--target", str(self.pid), "--")

    def run(self, *words: str, env: Mapping[str, str] | None = None, given: str = "") -> Finished:
        """Run a command on the machine to its end, whatever that is."""
        return subprocess.run(
            [*self.entered(), *words], env=env, input=given, capture_output=True, text=True, timeout=COMMAND_S
        )

    def ok(self, *words: str, env: Mapping[str, str] | None = None, given: str = "") -> str:
        """What a command says that must succeed."""
        done = self.run(*words, env=env, given=given)
        assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout

    def kill(self) -> None:
        """End the machine as if it lost its power. What forked its first process reaps it, and ends."""
        with suppress(ProcessLookupError, ValueError):
            os.kill(self.pid, signal.SIGKILL)
        try:
            self._process.wait(GONE_S)
        finally:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _joined(self) -> tuple[str, ...]:
        """A process enters the namespaces of its cgroups from within them."""
        if self._group is None:
            return ()
        join = 'group=$1; shift; for its in /sys/fs/cgroup/*/"$group"; do echo $$ >"$its/cgroup.procs"; done; exec "$@"'
        return ("sh", "-c", join, "sh", self._group)


def make_groups(name: str) -> None:
    """Make a cgroup of this name, with those above it, in each hierarchy that takes processes at once."""
    for hierarchy in _GROUPS.iterdir():
        if (hierarchy / "cgroup.procs").exists() and not (hierarchy / "cpuset.cpus").exists():
            (hierarchy / name).mkdir(parents=True, exist_ok=True)


def lacking(*programs: str) -> list[str]:
    """Which of these programs are not there."""
    return [name for name in programs if shutil.which(name, path=_with_system_programs()) is None]


def program(name: str) -> Path:
    """Where a program is."""
    found = shutil.which(name, path=_with_system_programs())
    assert found is not None, f"there is no {name} here"
    return Path(found)


def _with_system_programs() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
