"""What a client may send to have work done; the server adds who asked and from where, and makes a `JobSpec` of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from corral.model.array_indices import MAX_ARRAY_SIZE
from corral.model.checkpoint_signal import WORDS
from corral.model.container import Container
from corral.model.field import Field
from corral.model.job import ONE_DEVICE, JobKind, Request
from corral.model.known_fields import known_fields
from corral.model.notification import MAX_COMMAND_LENGTH, NotifyOn
from corral.model.sweep import Sweep
from corral.model.terminal import TerminalSize

MAX_BEGIN_AT = 1e10
MAX_CHECKPOINT_GRACE_S = 3600.0
MAX_INDEX = 2**31 - 1
MAX_NAME_LENGTH = 200
MAX_SPEEDS = 100
MAX_TIME_LIMIT_S = 1e10

NAME = Field(longest=MAX_NAME_LENGTH)
PRIORITY = Field(least=-1_000_000_000, most=1_000_000_000, hint="a lower number runs first")
TIME_LIMIT = Field(above=0, below=MAX_TIME_LIMIT_S)
PID = Field(least=1, most=2**22)
"""PID_MAX_LIMIT of Linux is the largest that there can be."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Elements of an array and how many of them may run at once (`limit`, None is no limit)."""

    indices: Annotated[tuple[int, ...], Field(shortest=1, longest=MAX_ARRAY_SIZE, least=0, most=MAX_INDEX)]
    limit: Annotated[
        int | None, Field(least=1, most=MAX_ARRAY_SIZE, hint="how many of its jobs run at a time", called="array")
    ] = None


@known_fields("client.submit(command, gpus=2) takes what `corral submit` does", gpus="request=Request(devices=2)")
@dataclass(frozen=True, slots=True)
class Submission:
    """One job, or one array of jobs, as asked for.

    Attributes:
        env: the complete environment of the job, to which the server adds its own variables.
        inherited_env, inherited_workdir: names of variables in `env`, and whether the directory, that are only those of
            the process which submits: a container does without them.
        container: what the command runs in, where the site runs containers; None is the site's default.
        after: what must have become of other jobs first: "17" succeeded, "any:17" ended, "notok:17" did not end well,
            "start:17" started, "corr:17" the same element of that array succeeded, "singleton" no earlier job of this
            name and user is left; alternatives as "17?any:18".
        begin_at: not to be started before (Unix seconds); None or a time in the past means at once.
        output, error: patterns of files for standard output and error in place of the log, as `corral.model.output`
            has them, seen from `workdir`; error goes with output unless it has its own.
        input: a pattern of a file for standard input, which is empty without one.
        script: the command runs a script: of a gang at rank 0 alone, where `srun` starts work on all members. A command
            that is none runs on every member.
        script_text: what that script says now. This is run, whatever the file says when the job starts, and the word
            of the command that names the file tells the script what it is called. None runs the file.
        git_commit, git_dirty: of the repository that `workdir` is in, and whether tracked files differ from it; None
            where that is not known.
        open_mode: "append" or "truncate" each time it starts; None truncates the first time and appends later.
        priority, retries: None takes the site's default.
        nice: in place of a priority, as sbatch(1) has it: 100 is one step behind the site's default.
        rlimits: soft limits by name of `resource` without the prefix ("NOFILE"); lowered to the server's, never raised.
        resources: amounts by a neighbour's resource name ("cuda.shares": "0.5"), in place of devices in `request`.
        speeds: how fast the job runs on each device model, as `JobSpec` has it: (("V100", 1.0), ("K80", 0.2)); 0 is
            cannot.
        exclusive: every device of a node, in place of the number in `request`.
        force: let it in although preflight says that it cannot run.
        checkpoint_signal, checkpoint_grace_s: as in `JobSpec`.
        sweep: an array over values of parameters, in place of `array`. Command, name, files and directory name them.
        stdin: somebody sends the program's standard input while it runs, to rank 0 of a gang; else it is empty.
        terminal: it runs at a terminal of this size, whose keys and output come and go the same way.
        notify, notify_on: as in `JobSpec`.
        owner_pid: for a reservation, the session leader whose end releases it; for an adoption, the process.
    """

    command: tuple[str, ...] = ()
    name: Annotated[str, NAME] = ""
    kind: JobKind = JobKind.RUN
    request: Request = field(default_factory=lambda: ONE_DEVICE)
    priority: Annotated[int | None, PRIORITY] = None
    queue: Annotated[str, NAME] = "default"
    project: Annotated[str, NAME] = "default"
    time_limit_s: Annotated[float | None, TIME_LIMIT] = None
    retries: Annotated[int | None, Field(least=0, most=1000, hint="0 tries once")] = None
    after: tuple[str, ...] = ()
    begin_at: Annotated[float | None, Field(least=0, most=MAX_BEGIN_AT)] = None
    output: str | None = None
    error: str | None = None
    open_mode: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    umask: Annotated[int, Field(least=0, most=0o777)] = 0o022
    rlimits: tuple[tuple[str, int], ...] = ()
    checkpoint_signal: Annotated[str | None, Field(among=WORDS)] = None
    checkpoint_grace_s: Annotated[float, Field(above=0, most=MAX_CHECKPOINT_GRACE_S)] = 60.0
    array: ArraySpec | None = None
    held: bool = False
    owner_pid: Annotated[int | None, PID] = None
    resources: Mapping[str, str] = field(default_factory=dict)
    force: bool = False
    exclusive: bool = False
    speeds: Annotated[tuple[tuple[str, float], ...], Field(longest=MAX_SPEEDS)] = ()
    nice: Annotated[int | None, Field(least=-(2**31), most=2**31, hint="100 is one step of priority")] = None
    script: bool = False
    script_text: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    notify: Annotated[str | None, Field(shortest=1, longest=MAX_COMMAND_LENGTH)] = None
    notify_on: tuple[NotifyOn, ...] = ()
    sweep: Sweep | None = None
    stdin: bool = False
    terminal: TerminalSize | None = None
    container: Container | None = None
    inherited_env: tuple[str, ...] = ()
    inherited_workdir: bool = False
    input: str | None = None

    @property
    def elements(self) -> ArraySpec | None:
        """The elements of the array that it is, also as a sweep; None of a single job."""
        return self.array if self.sweep is None else ArraySpec(tuple(range(self.sweep.size)), self.sweep.limit)
