"""Protocols for questions to a host: about its processes, and about the files of its users."""

from typing import NamedTuple, Protocol

from corral.core.model.jobs.job import ProcessIdentity


class Processes(Protocol):
    """The host's process table, as far as control needs it."""

    def alive(self, process: ProcessIdentity) -> bool:
        """Whether exactly this process still runs."""
        ...

    def identify(self, pid: int) -> ProcessIdentity | None:
        """Return the identity of a running process, or None."""
        ...

    def uid(self, process: ProcessIdentity) -> int | None:
        """Return the real user id of the process, or None if it is gone."""
        ...

    def family(self, pid: int) -> frozenset[int]:
        """The pids of a process and of all its living descendants."""
        ...


class Credentials(NamedTuple):
    """The user and groups of a process.

    On a host of another server's users, `name` alone counts: the numbers are those of the server's host.
    """

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    name: str = ""


class JobUser(NamedTuple):
    """A user of jobs, as the server's host knows the user."""

    name: str
    uid: int | None


class FileQuery(NamedTuple):
    """A question about a user's files.

    It asks whether a job can work in `directory`, whether the program `start` can be started, whether `file` exists, or
    for the last whole checkpoint in `checkpoints`. Without these four fields it asks for the runtime of `program` and
    for the facts about `model`.

    Attributes:
        program: the first word of a command, a path or a name to be looked for on PATH.
        model: directory or cached name of the model that the program is to load.
        start: as `program`, to be looked up as the start of a job does.
        file: a path, or a name that is looked for in `workdir` and then on PATH, if there is one.
        workdir: the directory that relative paths start from.
        variables: variables of the job's environment with search paths, by name.
        checkpoints: the directories of a job's checkpoints, one for each member.
    """

    directory: str | None = None
    program: str | None = None
    model: str | None = None
    workdir: str = "/"
    variables: tuple[tuple[str, str], ...] = ()
    start: str | None = None
    file: str | None = None
    checkpoints: tuple[str, ...] = ()
