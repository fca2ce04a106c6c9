"""Keeps a tuner running for every task that needs one: a process of the task's user, which works as a client."""

import contextlib
import json
import logging
import os
import pwd
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from corral.as_login import command_as
from corral.config.tuner import TunerSettings
from corral.features.tuner.measuring.genai_bench import PROGRAM
from corral.wire import to_plain

log = logging.getLogger("corral.tuner")

LOOK_INTERVAL_S = 0.5
MOST_AT_ONCE = 8
"""The most tuners; further tasks wait until one of them ends."""

MOST_OF_A_USER_AT_ONCE = 6
"""The most tuners of one user: tasks may run for days, and others need not wait for them."""

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_QUIET_S = 60.0
"""The end of a tuner that ran for this long does not count as a repeated crash."""

_END_S = 5.0
_LOCKS = "tuners"


class TaskOfUser(NamedTuple):
    """A task that needs a tuner."""

    task_id: str
    user: str


class _Tuner(NamedTuple):
    process: "subprocess.Popen[bytes]"
    user: str
    began_at: float


class TunerProcesses:
    """Starts and ends the tuners. Not thread-safe.

    `site` has the site's settings. `wanted` returns the tasks that run, or whose experiments are still to be ended.
    `give_up` is called with a task that can have no tuner, and the reason.
    """

    def __init__(
        self,
        home: Path,
        site: TunerSettings,
        wanted: Callable[[], tuple[TaskOfUser, ...]],
        give_up: Callable[[str, str], None],
    ) -> None:
        self._home = home
        self._site = json.dumps(to_plain(site))
        self._wanted = wanted
        self._give_up = give_up
        self._running: dict[str, _Tuner] = {}
        self._pauses: dict[str, tuple[float, float]] = {}
        """For each task whose tuner has ended too early: when the next may start, and the length of the pause."""

    @property
    def running(self) -> int:
        """The number of tuners that were running at the last look."""
        return len(self._running)

    def look(self) -> None:
        """Start missing tuners. A task whose tuner ended before the task gets a new one, after a pause."""
        ended = {task_id: code for task_id, one in self._running.items() if (code := one.process.poll()) is not None}
        # After the looks at the processes: a tuner that has ended its task is then seen to have done so.
        wanted, now = self._wanted(), time.monotonic()
        left = {one.task_id for one in wanted}
        for task_id, code in ended.items():
            tuner = self._running.pop(task_id)
            _close(tuner.process)
            if task_id in left:
                self._note_end(task_id, code, now - tuner.began_at, now)
        self._pauses = {task_id: pause for task_id, pause in self._pauses.items() if task_id in left}
        while (one := self._next(wanted, now)) is not None:
            try:
                self._start(one, now)
            except (KeyError, OSError) as error:
                self._pauses[one.task_id] = (now + _LONGEST_PAUSE_S, _LONGEST_PAUSE_S)
                self._give_up(one.task_id, f"its tuner cannot run as {one.user}: {error}")

    def _next(self, wanted: Sequence[TaskOfUser], now: float) -> TaskOfUser | None:
        """Return the next task to get a tuner: the first one of the user with the fewest tuners."""
        if len(self._running) >= MOST_AT_ONCE:
            return None
        of_users = Counter(one.user for one in self._running.values())
        may_start = (
            one
            for one in wanted
            if one.task_id not in self._running
            and of_users[one.user] < MOST_OF_A_USER_AT_ONCE
            and now >= self._pauses.get(one.task_id, (0.0, 0.0))[0]
        )
        return min(may_start, key=lambda one: of_users[one.user], default=None)

    def close(self) -> None:
        """End all tuners. Their jobs run on, and the next server continues the tasks."""
        for tuner in self._running.values():
            _close(tuner.process)
        for tuner in self._running.values():
            try:
                tuner.process.wait(_END_S)
            except subprocess.TimeoutExpired:
                tuner.process.kill()
                tuner.process.wait()
        self._running = {}

    def _note_end(self, task_id: str, code: int, ran_s: float, now: float) -> None:
        _, before_s = self._pauses.get(task_id, (0.0, 0.0))
        pause_s = _FIRST_PAUSE_S if ran_s > _QUIET_S or not before_s else min(2 * before_s, _LONGEST_PAUSE_S)
        self._pauses[task_id] = (now + pause_s, pause_s)
        log.warning("the tuner of task %s ended with %d; another one starts in %g s", task_id, code, pause_s)

    def _start(self, one: TaskOfUser, now: float) -> None:
        account = pwd.getpwnam(one.user)
        other = os.geteuid() == 0 and account.pw_uid != 0
        lock = self._lock_of(one.task_id)
        try:
            self._running[one.task_id] = _Tuner(self._spawned(one, account, other, lock), one.user, now)
        finally:
            os.close(lock)

    def _lock_of(self, task_id: str) -> int:
        """Open the file that a tuner locks first: the tuner of a killed server may live a moment longer."""
        directory = self._home / _LOCKS
        directory.mkdir(mode=0o700, exist_ok=True)
        return os.open(directory / task_id, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def _spawned(
        self, one: TaskOfUser, account: pwd.struct_passwd, other: bool, lock: int
    ) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-I", "-m", "corral.features.tuner.running"]
        command += [str(self._home), one.task_id, str(lock), self._site]
        if other:
            groups = os.getgrouplist(account.pw_name, account.pw_gid)
            command = command_as(account.pw_uid, account.pw_gid, groups, command)
        return subprocess.Popen(
            command,
            pass_fds=(lock,),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            # The server's own variables are left out. One thread only: more would take CPUs from jobs.
            env={
                "PATH": os.defpath,
                "HOME": account.pw_dir,
                "USER": account.pw_name,
                "LOGNAME": account.pw_name,
                "SHELL": account.pw_shell,
                "LANG": "C.UTF-8",
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
                **{name: os.environ[name] for name in (PROGRAM,) if name in os.environ},
            },
            start_new_session=True,
        )


def _close(process: "subprocess.Popen[bytes]") -> None:
    """Close the tuner's input, which tells it that its server is gone."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
