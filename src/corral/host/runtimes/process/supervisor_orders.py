"""The server's orders to a supervisor about one launch: two JSON arrays on two lines, which `native/orders.c` reads."""

import json
import signal
from typing import Any, NamedTuple

NEWS = signal.SIGURG
"""The signal that makes a supervisor look for changes: another time limit, or an agent that waits with a command.

A supervisor of a version that does not know this signal ignores it.
"""


def decode(text: str) -> Any:
    """Return the JSON value in the text. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class Orders(NamedTuple):
    """The supervisor's orders while the job runs; a user or group of -1 means the server's own.

    `cgroup` is the group by which the job is killed; it may be missing. `limits` are groups outside of which the job
    must not run. `checkpoint_signal` is sent `checkpoint_grace_s` before the time limit; 0 is none. `checkpoint_target`
    is its receiver: "" all processes, "B" the main process, "S" all but the main process. With `wrapped` the main
    process is Corral's own around a script, and the script's process counts as the main one, too.

    `numa_nodes` and `numa_cpus` bind the job; None allows all. With `stdin` the program's input comes from outside;
    with `terminal` it has a terminal of these rows and columns. SIGKILL comes `spare_s` after the grace: a program that
    ends the job itself reports its end meanwhile. `boot_at` is the start of this boot in the server's time; None if the
    server uses the wall clock. `log_of` names the job uniquely: another job's log in the place of its own is moved
    aside. `closed` are character devices that the job must not open, with three numbers for each range: major, first
    minor, last minor. The supervisor then fences `cgroup`, and nothing runs without it.
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
    closed: list[int] | None = None


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
    """Return the two lines. Bytes that are not UTF-8 survive as escaped surrogates."""
    return f"{json.dumps(orders)}\n{json.dumps(command)}\n"


def decode_command(text: str) -> Command:
    """Return the command in the second line. Raises ValueError or TypeError."""
    return Command(*decode(text.partition("\n")[2]))
