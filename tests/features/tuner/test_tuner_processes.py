"""Which tasks have a tuner."""

import fcntl
import getpass
import os
import pwd
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from corral.config.tuner import TunerSettings
from corral.features.tuner.running.tuner_processes import (
    MOST_AT_ONCE,
    MOST_OF_A_USER_AT_ONCE,
    TaskOfUser,
    TunerProcesses,
)

PATIENCE_S = 60.0


class Programs(TunerProcesses):
    """Runs a program in place of each tuner, and notes for which tasks."""

    def __init__(self, home: Path, program: Sequence[str], wanted: Callable[[], tuple[TaskOfUser, ...]]) -> None:
        super().__init__(home, TunerSettings(), wanted, lambda task_id, why: None)
        self._program = program
        self.begun: list[str] = []

    def _spawned(
        self, one: TaskOfUser, account: pwd.struct_passwd, other: bool, lock: int
    ) -> "subprocess.Popen[bytes]":
        self.begun.append(one.task_id)
        return subprocess.Popen(self._program, stdin=subprocess.PIPE)


def test_a_task_whose_user_is_gone_is_given_up_once(tmp_path: Path) -> None:
    given_up: list[tuple[str, str]] = []
    wanted = (TaskOfUser("7", "nobody-of-this-name"),)
    processes = TunerProcesses(
        tmp_path, TunerSettings(), lambda: wanted, lambda task_id, why: given_up.append((task_id, why))
    )
    processes.look()
    processes.look()
    ((task_id, why),) = given_up
    assert (task_id, "cannot run as nobody-of-this-name" in why) == ("7", True)


def test_a_tuner_that_ends_at_once_is_started_again_after_a_pause_and_none_outlives_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No server answers in this home, so that each tuner ends with an error of its own."""
    processes = TunerProcesses(
        tmp_path, TunerSettings(), lambda: (TaskOfUser("7", getpass.getuser()),), lambda task_id, why: None
    )
    look_until(processes, lambda: len(caplog.messages) == 2)
    assert [message.partition("; ")[2] for message in caplog.messages] == [
        "another one starts in 1 s",
        "another one starts in 2 s",
    ]
    processes.close()


def test_a_tuner_that_says_it_is_done_while_its_task_is_not_over_starts_again_after_a_pause_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    processes = Programs(tmp_path, ["true"], lambda: (TaskOfUser("7", getpass.getuser()),))
    look_until(processes, lambda: len(caplog.messages) == 2)
    assert len(processes.begun) == 2
    assert [message.partition("; ")[2] for message in caplog.messages] == [
        "another one starts in 1 s",
        "another one starts in 2 s",
    ]


def test_the_end_of_a_tuner_that_ended_its_task_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tasks: list[tuple[TaskOfUser, ...]] = [(TaskOfUser("7", getpass.getuser()),)]
    processes = Programs(tmp_path, ["true"], lambda: tasks[-1])
    processes.look()
    tasks.append(())
    look_until(processes, lambda: processes.running == 0)
    assert (processes.begun, caplog.messages) == (["7"], [])


def test_a_user_with_many_tasks_leaves_places_to_others_and_places_go_round(tmp_path: Path) -> None:
    many = [TaskOfUser(str(number), getpass.getuser()) for number in range(20)]
    others = [TaskOfUser(str(number), "nobody") for number in range(20, 22)]
    processes = Programs(tmp_path, ["cat"], lambda: (*many, *others))
    processes.look()
    assert processes.begun == ["0", "20", "1", "21", "2", "3", "4", "5"]
    processes.close()
    alone = Programs(tmp_path, ["cat"], lambda: tuple(many))
    alone.look()
    assert len(alone.begun) == MOST_OF_A_USER_AT_ONCE < MOST_AT_ONCE
    alone.close()


def look_until(processes: TunerProcesses, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    processes.look()
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
        processes.look()


def test_a_tuner_waits_for_the_end_of_another_one_of_its_task(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """That of a server that was killed ends when it notices, which may be after the next server has started one."""
    (tmp_path / "tuners").mkdir()
    processes = TunerProcesses(
        tmp_path, TunerSettings(), lambda: (TaskOfUser("7", getpass.getuser()),), lambda task_id, why: None
    )
    deadline = time.monotonic() + PATIENCE_S
    with (tmp_path / "tuners" / "7").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        processes.look()
        while not _waiting_for(other.fileno()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        processes.look()
        assert not caplog.messages
    look_until(processes, lambda: bool(caplog.messages))
    processes.close()


def _waiting_for(descriptor: int) -> list[int]:
    """Processes that wait for the lock of this file."""
    inode = str(os.fstat(descriptor).st_ino)
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return [int(words[5]) for words in lines if words[6].split(":")[-1] == inode]
