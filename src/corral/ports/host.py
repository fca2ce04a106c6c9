"""What is asked of a host: its processes, and the files of its users."""

from typing import NamedTuple, Protocol

from corral.model.job import ProcessIdentity


class Processes(Protocol):
    """What control needs of the host's process table."""

    def alive(self, process: ProcessIdentity) -> bool:
        """Whether exactly this process still runs."""
        ...

    def identify(self, pid: int) -> ProcessIdentity | None:
        """The identity of a running process, None when there is none."""
        ...

    def uid(self, process: ProcessIdentity) -> int | None:
        """The real user id that the process runs as, None when it is gone."""
        ...

    def family(self, pid: int) -> frozenset[int]:
        """The pids of a process and of all its living descendants."""
        ...


class Credentials(NamedTuple):
    """Whose rights a process has."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class FileQuery(NamedTuple):
    """What is to be found out from a user's files.

    Whether a job can work in `directory`; whether the program `start` can be started; whether `file` exists; else what
    a program brings.

    Attributes:
        program: the first word of a command, a path or a name to be looked for on PATH.
        model: directory or cached name of the model that the program is to load.
        start: as `program`, to be looked up as the start of a job does.
        file: a path, or a name that is looked for in `workdir` and then on PATH, if there is one.
        workdir: what relative paths start from.
        variables: those of the job's environment that say where to look, by name.
    """

    directory: str | None = None
    program: str | None = None
    model: str | None = None
    workdir: str = "/"
    variables: tuple[tuple[str, str], ...] = ()
    start: str | None = None
    file: str | None = None
