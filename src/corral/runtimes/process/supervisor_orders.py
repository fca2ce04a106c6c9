"""The server's orders to a supervisor about one launch: two JSON arrays on two lines, which `native/orders.c` reads."""

import json
import signal
from typing import Any, NamedTuple

NEWS = signal.SIGURG
"""Signals a supervisor to look for changes: another time limit, or an agent that waits with a command.

A supervisor of a version that does not know it ignores it.
"""


def decode(text: str) -> Any:
    """The JSON value in the text. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class Orders(NamedTuple):
    """What the supervisor keeps in mind while the job runs; a user or group of -1 means the server's own.

    `cgroup` is what the job is killed by, and tolerated to be missing; `limits` are those that it must not run outside.
    `checkpoint_signal` is sent to the job `checkpoint_grace_s` before its time limit, 0 being none.
    `checkpoint_target` is to whom: "" all processes, "B" the main process, "S" all but that.
    `wrapped` where the main process is Corral's own around a script: that script's process counts as the main one, too.
    `numa_nodes` and `numa_cpus` are what the job is bound to, None where it may use all.
    With `stdin` the program's input comes from outside; with `terminal` it runs at one of so many rows and columns.
    SIGKILL comes `spare_s` after the grace: a program that ends the job itself says meanwhile how that has ended.
    `boot_at` is when this boot began as the server counts time, None where it goes by the wall clock.
    `log_of` names the job as no other is named: what another has left in the place of its log is moved aside.
    """

    launch_id: str
    log_path: str
    scratch_path: str
    uid: int
    gid: int
    time_limit_s: float | None
    kill_grace_s: float
    log_max_bytes: int
    notes: list[str]
    cgroup: str | None
    limits: list[str]
    notify_path: str | None
    checkpoint_signal: int = 0
    checkpoint_grace_s: float = 0.0
    boot_at: float | None = None
    numa_nodes: list[int] | None = None
    numa_cpus: list[int] | None = None
    stdin: bool = False
    terminal: list[int] | None = None
    checkpoint_target: str = ""
    wrapped: bool = False
    spare_s: float = 0.0
    log_of: str = ""


class Command(NamedTuple):
    """The program to execute and its user; `uid`, `gid` and `groups` are all None to stay the server's user.

    `rlimits` are soft limits by name. `env` is the job's whole environment. `output` and `error` are files in place of
    the log, emptied first unless `append`; `input` is the file for standard input.
    """

    argv: list[str]
    env: dict[str, str]
    workdir: str
    umask: int
    uid: int | None
    gid: int | None
    groups: list[int] | None
    rlimits: dict[str, int]
    output: str | None = None
    error: str | None = None
    append: bool = False
    input: str | None = None


def encode(orders: Orders, command: Command) -> str:
    """Return both, one line each; bytes that are not UTF-8 survive as escaped surrogates."""
    return f"{json.dumps(orders)}\n{json.dumps(command)}\n"


def decode_command(text: str) -> Command:
    """The second line. Raises ValueError or TypeError."""
    return Command(*decode(text.partition("\n")[2]))
