"""A job is held to its CPUs and its memory of the host where the kernel can, by whichever cgroups there are."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.model.devices.means import HostMeans, Level
from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process.cgroups import cgroup
from corral.host.runtimes.process.cgroups.cgroup_limits import CgroupLimits
from corral.host.runtimes.process.process_launches import LaunchState, ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchError
from tests.host.runtimes.process.conftest import Machine, until
from tests.host.runtimes.process.supervisor_parts import kills_for_memory

ENFORCED = HostMeans(Level.ENFORCED, Level.ENFORCED)
HOG = "b = bytearray(400 << 20); print('had it all')"


class StandIn:
    """A tree of files where a machine has its cgroups; what the kernel makes in a new group is there beforehand."""

    def __init__(self, root: Path, mounts: str, own: str) -> None:
        self.root = root
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mounts").write_text(mounts)
        (root / "proc/self/cgroup").write_text(own)

    def group(self, path: str, **files: str) -> Path:
        directory = self.root / "sys/fs/cgroup" / path
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("cgroup.procs", "cgroup.kill", "cgroup.subtree_control"):
            (directory / name).touch()
        for name, text in files.items():
            (directory / name.replace("_of_", ".")).write_text(text)
        return directory


@pytest.fixture
def unified(tmp_path: Path) -> StandIn:
    """Version 2 alone, as systemd delegates it: the server is in a leaf below the group that was delegated."""
    stand_in = StandIn(
        tmp_path / "root",
        "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
        "0::/system.slice/corral.service/server\n",
    )
    stand_in.group("")
    stand_in.group("system.slice/corral.service/server")
    try:
        os.setxattr(stand_in.group("system.slice/corral.service"), "user.delegate", b"1")
    except OSError:
        pytest.skip("no attributes on the files of this machine")
    stand_in.group("system.slice/corral.service/corral-1", cgroup_of_controllers="cpu memory pids")
    return stand_in


@pytest.fixture
def split(tmp_path: Path) -> StandIn:
    """Version 1 alone, cpu and memory each in a hierarchy of its own, and the server in a group of one of them."""
    stand_in = StandIn(
        tmp_path / "root",
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
        "4:memory:/box\n1:cpu,cpuacct:/\n",
    )
    stand_in.group("cpu,cpuacct/corral-1", cpu_of_cfs_quota_us="")
    stand_in.group("memory/box/corral-1", memory_of_limit_in_bytes="")
    return stand_in


def test_the_unified_hierarchy_limits_a_job_in_the_group_that_it_is_killed_by(unified: StandIn) -> None:
    base = cgroup.make_base("corral-1", str(unified.root))
    service = unified.root / "sys/fs/cgroup/system.slice/corral.service"
    assert base == str(service / "corral-1")
    limits = CgroupLimits("corral-1", base, str(unified.root))
    assert (limits.holds_cpus, limits.holds_memory) == (True, True)
    assert (service / "corral-1/cgroup.subtree_control").read_text() == "+memory"
    group = unified.group(
        "system.slice/corral.service/corral-1/7.1",
        cpu_of_max="", memory_of_max="", memory_of_swap_of_max="", memory_of_oom_of_group="",
    )  # fmt: skip
    assert limits.prepare("7.1", 1500, 64) == [str(group)]
    told = [(group / name).read_text() for name in ("cpu.max", "memory.max", "memory.swap.max", "memory.oom.group")]
    assert told == ["150000 100000", str(64 << 20), "0", "1"]
    (group / "memory.events").write_text("low 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 1\n")
    assert kills_for_memory(str(group)) == (2, 64)


def test_controllers_that_are_not_handed_down_hold_nobody(unified: StandIn) -> None:
    base = unified.root / "sys/fs/cgroup/system.slice/corral.service/corral-1"
    (base / "cgroup.controllers").write_text("pids\n")
    limits = CgroupLimits("corral-1", str(base), str(unified.root))
    assert (limits.holds_cpus, limits.holds_memory) == (False, False)
    assert limits.prepare("7.1", 1500, 64) == []


def test_hierarchies_of_version_1_limit_a_job_in_a_group_of_each(split: StandIn) -> None:
    limits = CgroupLimits("corral-1", None, str(split.root))
    assert (limits.holds_cpus, limits.holds_memory) == (True, True)
    cpu = split.group("cpu,cpuacct/corral-1/7.1", cpu_of_cfs_quota_us="-1")
    memory = split.group("memory/box/corral-1/7.1", memory_of_limit_in_bytes="")
    assert limits.prepare("7.1", 1, 64) == [str(cpu), str(memory)]
    assert (cpu / "cpu.cfs_quota_us").read_text() == "1000"
    assert (memory / "memory.limit_in_bytes").read_text() == str(64 << 20)
    assert limits.prepare("7.1", 0, 64) == [str(memory)]
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert kills_for_memory(str(memory)) == (1, 64)


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Machine]:
    """This very machine, where its cgroups can hold a job to its part of it."""
    machine = Machine(tmp_path)
    try:
        if machine.runtime.host_means != ENFORCED:
            pytest.skip("no cgroups here that limit CPUs and memory and that this process may write")
        yield machine
        assert groups_of(machine.runtime) == []
    finally:
        machine.shut()
    assert not any(Path(base).exists() for base in bases_of(machine.runtime))


def bases_of(runtime: ProcessLaunches) -> list[str]:
    assert runtime._cgroups.limits is not None
    return runtime._cgroups.limits._bases()


def groups_of(runtime: ProcessLaunches) -> list[str]:
    return [entry.name for base in bases_of(runtime) for entry in os.scandir(base) if entry.is_dir()]


def ending(state: LaunchState) -> tuple[int | None, str]:
    assert state.exit is not None
    return state.exit.exit_code, state.exit.message


def test_a_job_that_takes_more_memory_than_it_was_granted_is_killed_and_its_end_says_so(holding: Machine) -> None:
    name = holding.launch(shutil.which("python3") or "python3", "-c", HOG, host_memory_mib=100)
    state = holding.wait(name)
    told = "the kernel killed a process of it for memory: the job may have 100 MiB (--host-memory)"
    assert ending(state) == (137, told)
    assert holding.log(name).decode() == f"corral: {told}\n"
    assert ending(holding.run("python3", "-c", HOG, host_memory_mib=800)) == (0, "")


def test_a_job_that_survives_the_loss_of_a_process_is_told_in_its_log(holding: Machine) -> None:
    name = holding.launch("sh", "-c", f'python3 -c "{HOG}"; echo went on', host_memory_mib=100)
    code, message = ending(holding.wait(name))
    if code == 0:  # where the kernel cannot kill the group as a whole
        assert message == ""
        assert "went on" in holding.log(name).decode()
    assert "the kernel killed" in holding.log(name).decode()


def test_a_job_gets_no_more_cpu_time_than_it_was_granted(holding: Machine) -> None:
    count = "import time; a = time.time(); c = time.process_time()\nwhile time.time() < a + 1: pass\n"
    name = holding.launch("python3", "-c", f"{count}print(time.process_time() - c)", cpu_milli=200)
    holding.wait(name)
    assert float(holding.log(name)) < 0.5


def test_only_the_job_is_inside(holding: Machine) -> None:
    name = holding.launch("sh", "-c", "cat /proc/self/cgroup; sleep 60", cpu_milli=1000, host_memory_mib=100)
    holding.wait_for_log(name, f"/{name}\n")
    assert f"/{name}\n" not in Path(f"/proc/{holding.supervisor(name)}/cgroup").read_text()
    holding.runtime.stop(name)
    holding.wait(name)


def test_a_launch_that_cannot_be_held_to_its_limits_is_refused(
    holding: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cgroup, "write", refuse)
        with pytest.raises(LaunchError, match="the limits of job a1 cannot be set"):
            holding.launch("true", host_memory_mib=100, launch_id="a1")
    assert groups_of(holding.runtime) == []
    assert holding.runtime.status("a1").phase is LaunchPhase.UNKNOWN


def refuse(path: str, data: bytes) -> None:
    raise PermissionError(13, "Permission denied")


def test_groups_of_a_launch_that_nobody_claimed_go_with_its_record_or_with_the_next_server(holding: Machine) -> None:
    assert holding.runtime._cgroups.limits is not None
    holding.runtime._cgroups.limits.prepare("a9", 1000, 100)
    assert "a9" in groups_of(holding.runtime)
    holding.runtime.declare_lost("a9")
    holding.runtime.forget("a9")
    assert groups_of(holding.runtime) == []
    holding.runtime._cgroups.limits.prepare("a10", 1000, 100)
    holding.runtime.close()
    holding.start_backend()
    until(lambda: not groups_of(holding.runtime), "the removal of every group")


def test_a_job_whose_supervisor_was_killed_leaves_no_group(holding: Machine) -> None:
    name = holding.launch("sh", "-c", "echo up; sleep 60", cpu_milli=1000, host_memory_mib=100)
    holding.wait_for_log(name, "up")
    os.kill(holding.supervisor(name), 9)
    holding.wait(name)
    until(lambda: not groups_of(holding.runtime), "the removal of every group")
