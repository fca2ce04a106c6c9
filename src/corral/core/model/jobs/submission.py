"""Submissions of clients. The server adds the user and their directory, and makes a `JobSpec` of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from corral.core.model.field import RESERVE, SUBMIT, Field, JobOption, Kind
from corral.core.model.jobs.array_indices import MAX_ARRAY_SIZE
from corral.core.model.jobs.job import PRIORITY, JobTerms
from corral.core.model.jobs.sweep import Sweep
from corral.core.model.known_fields import known_fields

MAX_INDEX = 2**31 - 1

PID = Field(least=1, most=2**22)
"""The largest pid on Linux is PID_MAX_LIMIT."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Elements of an array and how many of them may run at once (`limit`, None is no limit)."""

    indices: Annotated[tuple[int, ...], Field(shortest=1, longest=MAX_ARRAY_SIZE, least=0, most=MAX_INDEX)]
    limit: Annotated[
        int | None,
        Field(least=1, most=MAX_ARRAY_SIZE, hint="how many of its jobs run at a time", called="array"),
        JobOption("N", name="max_running", on=SUBMIT, own=True),
    ] = None
    """Run N jobs of the array or sweep at a time.

    In Python: how many jobs of an array or of `params` may run at once.
    """


@known_fields("client.submit(command, gpus=2) takes what `corral submit` does", gpus="request=Request(devices=2)")
@dataclass(frozen=True, slots=True)
class Submission(JobTerms):
    """One job, or one array of jobs, as asked for.

    Attributes:
        env: the complete environment of the job. The server adds its own variables.
        inherited_env, inherited_workdir: the variables in `env`, and whether also the directory, that only come from
            the submitting process: a container does not get them.
        container: the container of the command, if the site runs containers; None is the site's default.
        after: conditions on other jobs: "17" succeeded, "any:17" ended, "notok:17" did not end well, "start:17"
            started, "corr:17" the same element of that array succeeded, "singleton" no earlier job of this name and
            user is left; alternatives as "17?any:18".
        begin_at: the earliest start (Unix seconds); None or a time in the past means at once.
        output, error: patterns of files for standard output and error instead of the log (see
            `core.model.jobs.output`), relative to `workdir`. Without `error`, standard error goes to `output`.
        input: a pattern of a file for standard input, which is empty without one.
        script: the command runs a script. In a gang it runs at rank 0 alone, where `srun` starts work on all members.
            Any other command runs on every member.
        script_text: the present text of that script. The job runs this text, even if the file changes before its start.
            The script still gets the file's name from the command. None runs the file.
        git_commit, git_dirty: of the repository that `workdir` is in, and whether tracked files differ from it; None
            where that is not known.
        open_mode: "append" or "truncate" each time it starts; None truncates the first time and appends later.
        priority, retries: None means the site's default.
        nice: in place of a priority, as in sbatch(1): 100 is one step behind the site's default.
        rlimits: soft limits by name of `resource` without the prefix ("NOFILE"); lowered to the server's, never raised.
        resources: amounts by another system's resource names ("cuda.shares": "0.5"), in place of devices in `request`.
        speeds: how fast the job runs on each device model, as in `JobSpec`: (("V100", 1.0), ("K80", 0.2)).
        exclusive: every device of a node, in place of the number in `request`.
        force: accept it although preflight says that it cannot run.
        checkpoint_signal, checkpoint_grace_s, checkpoint_every_s, checkpoint_dir: as in `JobSpec`.
        sweep: an array over values of parameters, in place of `array`. Command, name, files and directory may contain
            them.
        stdin: the client sends the program's standard input while it runs, in a gang to rank 0; else the input is
            empty.
        terminal: it runs at a terminal of this size, with keys and output sent the same way.
        notify, notify_on: as in `JobSpec`.
        owner_pid: for a reservation, the session leader whose end releases it; for an adoption, the process.
    """

    command: tuple[str, ...] = ()
    priority: Annotated[int | None, PRIORITY, JobOption("N", on=RESERVE)] = None
    """Lower numbers run first.  [default: 5]

    In Python: lower numbers run first; None is the site's default.
    """

    retries: Annotated[int | None, Field(least=0, most=1000, hint="0 tries once"), JobOption("N")] = None
    """Number of retries after a failure.  [default: set by the site]"""

    env: Annotated[
        Mapping[str, str],
        JobOption("K[=V]", kind=Kind.OWN, python="Mapping[str, str | float | None]", many=True, own=True),
    ] = field(default_factory=dict)
    """Set an environment variable; K alone has the value of this shell. May be repeated.

    In Python: variables to set besides those of this process: {"SEED": 5}; None removes one.
    """

    array: Annotated[
        ArraySpec | None, JobOption("SPEC", kind=Kind.OWN, python="str | Iterable[int] | None", on=SUBMIT, own=True)
    ] = None
    """One job per index: 0-9%2 is ten jobs, two at a time; 0,3,5-7; 0-10:2.

    In Python: indices and how many may run at once: "0-9%2", "0,3,5-7", "0-10:2", range(10).
    """

    held: Annotated[bool, JobOption(name="hold", on=SUBMIT)] = False
    """Keep the job waiting until `corral release`."""

    owner_pid: Annotated[int | None, PID] = None
    resources: Annotated[
        Mapping[str, str],
        JobOption(
            "KEY=N,..",
            name="resource",
            kind=Kind.OWN,
            python="Mapping[str, str | int | float]",
            many=True,
            on=RESERVE,
            own=True,
        ),
    ] = field(default_factory=dict)
    """Another system's resource names: cuda.shares=0.5,mem=4g. `corral resources` lists them.

    In Python: a mapping of the same with another system's resource names: {"cuda.shares": "0.5"}; `cpu` and `mem` are
    those of the host.
    """

    force: Annotated[bool, JobOption()] = False
    """Submit even if `corral check` finds that it cannot run."""

    exclusive: Annotated[bool, JobOption(own=True)] = False
    """All GPUs of one node.

    In Python: all GPUs of one node (in a gang, of one node per member), in place of `gpus`.
    """

    nice: Annotated[
        int | None, Field(least=-(2**31), most=2**31, hint="100 is one step of priority"), JobOption("N")
    ] = None
    """As in Slurm: 100 raises the priority number by 1 (runs later).

    In Python: as for sbatch(1), in place of priority: 100 is one priority step behind the default.
    """

    script_text: str | None = None
    sweep: Annotated[
        Sweep | None,
        JobOption(
            "NAME=V,..",
            name="params",
            flag="param",
            kind=Kind.OWN,
            python="Mapping[str, Values] | None",
            many=True,
            on=SUBMIT,
            own=True,
        ),
    ] = None
    """One job per value: lr=0.1,0.01 or seed=0..4; repeated, one per combination. Each has its value as variable NAME,
    and in place of {NAME}.

    In Python: a job for each combination of these values: {"lr": [0.1, 0.01], "seed": range(5)}. Each finds its values
    in its environment, and in place of {lr} in command, name, output, error, input and workdir. Text is read as on the
    command line: "0.1,0.01", "0..4"; a number is one value.
    """

    inherited_env: tuple[str, ...] = ()
    inherited_workdir: bool = False

    @property
    def elements(self) -> ArraySpec | None:
        """The elements of the array or sweep; None for a single job."""
        return self.array if self.sweep is None else ArraySpec(tuple(range(self.sweep.size)), self.sweep.limit)
