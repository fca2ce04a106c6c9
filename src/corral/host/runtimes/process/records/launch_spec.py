"""The order from the server to the process runtime."""

import os
import re
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.host.runtimes.process.supervisor_orders import Command, Orders

LAUNCH_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class LaunchError(Exception):
    """A launch could not be started or changed. The message says what to do next."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One launch of one job, complete: the job gets this environment and no other.

    `uid`, `gid` and `groups` together name the user to become, which only a server that runs as root can do. Without
    them the job runs as the server's user. `rlimits` maps names such as "RLIMIT_NOFILE" to soft limits, which can only
    lower the server's own. `cpu_milli` and `host_memory_mib` are the job's limits on the host, enforced if the runtime
    can; 0 is no limit. `notes` are lines written at the head of the log.

    `output` and `error` are files for standard output and error in place of the log, emptied first unless `append`.
    `input` is a file for standard input. With `stdin` the program's input comes from outside (`job_input`). With
    `terminal` it has a terminal of these rows and columns.

    `checkpoint_signal` is the number of a signal sent `checkpoint_grace_s` before the time limit, if that is longer; 0
    is none. `numa_nodes` and `numa_cpus` bind the job; () is no binding. `log_of` names the job uniquely, so that it
    never gets another job's log. None in `kill_grace_s` and `log_max_bytes` takes the runtime's default.

    With `acts_for_user` the program is Corral's own. Log and scratch are the user's, but it runs as the server's user
    and ends the job itself within `kill_grace_s`; SIGKILL comes `spare_s` later. All others are fenced if the runtime
    can: of all GPUs they can open only those in `devices`, by UUID.

    Raises ValueError for values that no process could be started with.
    """

    launch_id: str
    job_id: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    log_path: str
    scratch_path: str
    umask: int = 0o022
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] | None = None
    time_limit_s: float | None = None
    kill_grace_s: float | None = None
    log_max_bytes: int | None = None
    rlimits: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cpu_milli: int = 0
    host_memory_mib: int = 0
    output: str | None = None
    error: str | None = None
    append: bool = False
    input: str | None = None
    checkpoint_signal: int = 0
    checkpoint_grace_s: float = 0.0
    checkpoint_target: str = ""
    wrapped: bool = False
    stdin: bool = False
    terminal: tuple[int, int] | None = None
    numa_nodes: tuple[int, ...] = ()
    numa_cpus: tuple[int, ...] = ()
    acts_for_user: bool = False
    spare_s: float = 0.0
    log_of: str = ""
    devices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not LAUNCH_ID.fullmatch(self.launch_id):
            raise ValueError(
                f"launch id {self.launch_id!r} cannot name a directory: use up to 128 of A-Z a-z 0-9 _ - ."
            )
        if not self.argv or not self.argv[0]:
            raise ValueError(f"job {self.job_id} has no command to run: argv needs at least a program")
        if None in (self.uid, self.gid, self.groups) and (self.uid, self.gid, self.groups) != (None, None, None):
            # If one of the three were missing, the job would have root's value.
            raise ValueError(f"job {self.job_id}: uid, gid and groups go together; name all three or none")
        files = (self.output or "", self.error or "", self.input or "")
        for text in (*self.argv, *self.env, *self.env.values(), self.workdir, *files):
            if "\0" in text:
                raise ValueError(
                    f"job {self.job_id}: a NUL byte in {text!r}; no command, variable or path can hold one"
                )
        for name in self.env:
            if not name or "=" in name:
                raise ValueError(f"job {self.job_id}: {name!r} cannot name an environment variable")

    @property
    def changes_user(self) -> bool:
        """Whether the job runs as another user than this process."""
        if self.acts_for_user or self.uid is None or self.gid is None or self.groups is None:
            return False
        own = (os.geteuid(), os.getegid(), set(os.getgroups()))
        return (self.uid, self.gid, set(self.groups)) != own

    def command(self, mark: Mapping[str, str], rlimits: Mapping[str, int]) -> Command:
        """Return the program to execute, with the runtime's mark in its environment and the limits that can be set."""
        uid, gid, groups = (self.uid, self.gid, self.groups) if self.changes_user else (None, None, None)
        return Command(
            argv=list(self.argv),
            env={**self.env, **mark},
            workdir=self.workdir,
            umask=self.umask,
            uid=uid,
            gid=gid,
            groups=None if groups is None else list(groups),
            rlimits=dict(rlimits),
            output=self.output,
            error=self.error,
            append=self.append,
            input=self.input,
        )

    def orders(
        self,
        *,
        kill_grace_s: float,
        log_max_bytes: int,
        notes: tuple[str, ...],
        cgroup: str | None,
        limits: list[str],
        closed: list[int] | None,
        notify_path: str | None,
        boot_at: float | None,
    ) -> Orders:
        """Return the supervisor's orders; the arguments are decisions and defaults of the runtime."""
        return Orders(
            launch_id=self.launch_id,
            log_path=self.log_path,
            scratch_path=self.scratch_path,
            uid=-1 if self.uid is None else self.uid,
            gid=-1 if self.gid is None else self.gid,
            time_limit_s=self.time_limit_s,
            kill_grace_s=kill_grace_s if self.kill_grace_s is None else self.kill_grace_s,
            log_max_bytes=log_max_bytes if self.log_max_bytes is None else self.log_max_bytes,
            notes=[_as_text(line) for line in (*self.notes, *notes)],
            cgroup=cgroup,
            limits=limits,
            notify_path=notify_path,
            checkpoint_signal=self.checkpoint_signal,
            checkpoint_grace_s=self.checkpoint_grace_s,
            checkpoint_target=self.checkpoint_target,
            wrapped=self.wrapped,
            spare_s=self.spare_s,
            boot_at=boot_at,
            stdin=self.stdin,
            terminal=None if self.terminal is None else list(self.terminal),
            numa_nodes=list(self.numa_nodes) or None,
            numa_cpus=list(self.numa_cpus) or None,
            log_of=self.log_of,
            closed=closed,
        )


def _as_text(line: str) -> str:
    """Return a line that a file can hold as UTF-8, without zero bytes; it may be a user's own text."""
    return line.replace("\0", "\\x00").encode(errors="backslashreplace").decode()


def lowered_limits(wanted: Mapping[str, int]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the soft limits to set for the requested ones by name (RLIMIT_*), and a line for each that is lower than
    requested or unknown.
    """
    limits: dict[str, int] = {}
    lines: list[str] = []
    for name, soft in wanted.items():
        number = getattr(resource, name, None)
        if not name.startswith("RLIMIT_") or number is None:
            lines.append(f"limit {name} is not known on this machine and stays as it is")
            continue
        most = resource.getrlimit(number)[1]
        limits[name] = _at_most(soft, most)
        if limits[name] != soft:
            lines.append(f"limit {name} is {most} instead of {_words(soft)}: the server itself may have no more")
    return limits, tuple(lines)


def _at_most(soft: int, most: int) -> int:
    if most == resource.RLIM_INFINITY:
        return soft
    return most if soft == resource.RLIM_INFINITY else min(soft, most)


def _words(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
