"""A process that Corral did not start loses the GPUs of others, and nothing else."""

import inspect
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.host.runtimes.process.cgroups import cgroup
from corral.host.runtimes.process.cgroups.device_fence import CONTROLLER
from corral.host.runtimes.process.procfs import LocalProcess
from tests.host.runtimes.process import fence_attacks
from tests.host.runtimes.process.conftest import Machine, root_only
from tests.host.runtimes.process.test_fence import USER, fenced, for_all, opens
from tests.host.runtimes.process.test_process_execution import sleeper

__all__ = ["fenced", "for_all"]

pytestmark = root_only()

GO = "read go; exec "


@contextmanager
def session(command: str, *arguments: str, uid: int = 1) -> Iterator["subprocess.Popen[str]"]:
    """A user's process in a directory of their own, which goes on with the command when it gets a line."""
    with tempfile.TemporaryDirectory() as own:
        os.chown(own, uid, uid)
        words = ["sh", "-c", f"{GO}{command}", "sh", *arguments]
        who: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": ()}
        with subprocess.Popen(
            words, cwd=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **who
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def moved(machine: Machine, process: "subprocess.Popen[str]", *devices: str) -> bool:
    return machine.runtime.fence(LocalProcess.of(process.pid), devices)


def groups_of(pid: int) -> dict[str, str]:
    """Its path in each hierarchy, by the controllers."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return dict(line.split(":", 2)[1:] for line in lines)


def hierarchy(machine: Machine) -> str:
    return "" if machine.runtime._cgroups._fence.by_program else CONTROLLER


def test_a_command_of_a_session_cannot_open_the_device_of_another_whatever_it_tries(fenced: Machine) -> None:
    files = (f"{fenced.home}/gpu0", f"{fenced.home}/gpu1")
    with session('python3 -c "$@"', inspect.getsource(fence_attacks), *files) as process:
        assert moved(fenced, process, "gpu0")
        said, _ = process.communicate("\n")
    found = dict(line.split(": ") for line in said.splitlines() if "gpu1" in line)
    assert {"at once", "without variables", "in a child", "after setsid", "after moving cgroups"} <= set(found)
    assert set(found.values()) == {"gpu1 EPERM"}, found
    assert "at once: gpu0 opened" in said


def test_it_keeps_its_session_and_all_cgroups_but_one_below_which_it_stays(fenced: Machine) -> None:
    with session("sleep 60") as process:
        before, session_id = groups_of(process.pid), os.getsid(process.pid)
        moved(fenced, process, "gpu0")
        after = groups_of(process.pid)
        where = hierarchy(fenced)
        assert os.getsid(process.pid) == session_id
        assert {name: path for name, path in after.items() if name != where} == {
            name: path for name, path in before.items() if name != where
        }
        assert os.path.dirname(after[where]) == before[where]


def test_a_command_in_a_command_is_fenced_by_its_own_reservation_and_again_by_the_same_once(fenced: Machine) -> None:
    with session(f'sh -c "{opens(fenced, "gpu0", "gpu1")}"') as process:
        for devices, moves in ((["gpu0"], True), (["gpu1"], True), (["gpu1"], False)):
            before = groups_of(process.pid)
            moved(fenced, process, *devices)
            assert (groups_of(process.pid) != before) is moves
        said, _ = process.communicate("\n")
    assert said.split() == ["no", "yes"]


def test_what_runs_in_a_job_stays_in_the_cgroup_by_which_the_job_is_killed(fenced: Machine) -> None:
    if hierarchy(fenced):
        pytest.skip("no cgroup kills jobs here")
    name = sleeper(fenced, **USER, devices=("gpu0", "gpu1"))
    (pid,) = fenced.runtime.main_pids(name)
    fenced.runtime.fence(LocalProcess.of(pid), ("gpu0",))
    assert groups_of(pid)[""].startswith(f"{fenced.runtime.cgroup_of(name)}/")
    fenced.runtime.stop(name)
    fenced.wait(name)
    assert not os.path.exists(f"/proc/{pid}")


def test_who_could_move_it_again_is_known(fenced: Machine) -> None:
    mount = cgroup.mount_of(hierarchy(fenced), "")
    own = Path(f"{mount}/corral-test-{os.getpid()}")
    own.mkdir()
    try:
        with session("sleep 60") as process:
            (own / "cgroup.procs").write_text(str(process.pid))
            os.chown(own / "cgroup.procs", 1, 1)
            assert not moved(fenced, process, "gpu0")
        fenced.runtime.close()
    finally:
        own.rmdir()


def test_a_process_that_has_ended_is_not_moved_and_no_group_stays(fenced: Machine) -> None:
    with session("true") as process:
        gone = LocalProcess.of(process.pid)
        process.communicate("\n")
        with pytest.raises((ProcessLookupError, FileNotFoundError)):
            fenced.runtime.fence(gone, ("gpu0",))
        with session("sleep 60") as other, pytest.raises(ProcessLookupError):
            fenced.runtime.fence(LocalProcess(other.pid, gone.start_ticks - 1, gone.boot_id), ("gpu0",))
        assert fences(fenced) == []


def test_a_group_goes_when_nothing_runs_in_it(fenced: Machine) -> None:
    with session("sleep 60") as first, session("sleep 60") as second:
        moved(fenced, first, "gpu0")
        first.kill()
        first.wait()
        moved(fenced, second, "gpu0")
        assert len(fences(fenced)) == 1
    fenced.runtime.close()
    assert fences(fenced) == []


def test_nothing_is_moved_where_a_fence_cannot_be_made(fenced: Machine) -> None:
    with session("sleep 60") as process:
        before = groups_of(process.pid)
        with pytest.raises(OSError, match="device file of a GPU is not known"):
            moved(fenced, process, "gpu0", "unknown")
        assert groups_of(process.pid) == before


def fences(machine: Machine) -> list[str]:
    mount, below = cgroup.mount_of(hierarchy(machine), ""), machine.runtime._cgroups._below
    assert below is not None
    return [name for _, groups, _ in os.walk(f"{mount}") for name in groups if name.startswith(below._prefix)]
