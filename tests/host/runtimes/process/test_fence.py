"""Of the devices that are fenced, a job can open its own and no other, whatever it tries."""

import inspect
import os
import stat
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process.cgroups.device_fence import DeviceFence
from corral.host.runtimes.process.cgroups.job_cgroups import JobCgroups
from corral.host.sharing.fences import GpuNumbers
from corral.vendors.vendor import DeviceNumbers
from tests.host.runtimes.process import fence_attacks
from tests.host.runtimes.process.conftest import Machine, root_only
from tests.host.runtimes.process.test_process_execution import outcome, sh, sleeper

pytestmark = root_only()

USER = {"uid": 1, "gid": 1, "groups": ()}
STAND_INS = {"gpu0": "/dev/zero", "gpu1": "/dev/full"}
"""Devices that do no harm stand for GPUs: files of other names have their numbers."""


def closed_to(uuids: Collection[str]) -> tuple[DeviceNumbers, ...]:
    found = {uuid: os.stat(file).st_rdev for uuid, file in STAND_INS.items()}
    numbers = {uuid: DeviceNumbers(os.major(n), os.minor(n), os.minor(n)) for uuid, n in found.items()}
    own: dict[str, tuple[DeviceNumbers, ...]] = {uuid: (number,) for uuid, number in numbers.items()}
    return GpuNumbers(own, tuple(numbers.values())).closed_to(uuids)


def listing(self: DeviceFence, name: str, unified_base: str | None, root: str = "") -> None:
    """As on a machine that has no unified hierarchy."""
    FIND(self, name, None, root)


FIND = DeviceFence.find


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A directory that every user can enter, with a file of each stand-in that every user may open."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        home.chmod(0o755)
        for name, file in STAND_INS.items():
            os.mknod(home / name, stat.S_IFCHR, os.stat(file).st_rdev)
            (home / name).chmod(0o666)
        yield home


@pytest.fixture(params=["by a program", "by a list"])
def fenced(for_all: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Each way of fencing."""
    if request.param == "by a list":
        monkeypatch.setattr(DeviceFence, "find", listing)
    machine = Machine(for_all, closed_to=closed_to)
    try:
        if (why := machine.runtime.host_means.unfenced) is not None:
            pytest.skip(f"jobs cannot be fenced here: {why}")
        yield machine
    finally:
        machine.shut()


def opens(machine: Machine, *files: str) -> str:
    """A script that says of each file whether it can be opened."""
    paths = (f"{machine.home}/{file}" if "/" not in file else file for file in files)
    return "; ".join(f"(exec 3<>{path}) 2>/dev/null && echo yes || echo no" for path in paths)


def test_a_job_cannot_open_the_device_of_another_whatever_it_tries(fenced: Machine) -> None:
    attack = ("python3", "-c", inspect.getsource(fence_attacks), f"{fenced.home}/gpu0", f"{fenced.home}/gpu1")
    scratch = f"{fenced.home}/scratch/a1"
    name = fenced.launch(*attack, **USER, launch_id="a1", devices=("gpu0",), workdir=scratch)
    fenced.wait(name)
    found = dict(line.split(": ") for line in fenced.log(name).decode().splitlines() if "gpu1" in line)
    assert {"at once", "without variables", "in a child", "after setsid", "after moving cgroups"} <= set(found)
    assert set(found.values()) == {"gpu1 EPERM"}, found
    assert "at once: gpu0 opened" in fenced.log(name).decode()


@pytest.mark.parametrize(
    ("devices", "said"), [((), "no no yes"), (("gpu1",), "no yes yes"), (("gpu0", "gpu1"), "yes yes yes")]
)
def test_a_job_can_open_its_own_devices_and_those_that_are_no_gpus(
    fenced: Machine, devices: tuple[str, ...], said: str
) -> None:
    name = fenced.launch("sh", "-c", opens(fenced, "gpu0", "gpu1", "/dev/null"), **USER, devices=devices)
    fenced.wait(name)
    assert fenced.log(name).decode().split() == said.split()


def test_root_and_its_own_terminal_are_fenced_too(fenced: Machine) -> None:
    name = fenced.launch("sh", "-c", opens(fenced, "gpu0", "gpu1"), devices=("gpu0",), terminal=(24, 80))
    fenced.wait(name)
    assert fenced.log(name).decode().split() == ["yes", "no"]


def test_a_command_inside_a_job_is_inside_its_fence(fenced: Machine) -> None:
    name = sleeper(fenced, **USER, devices=("gpu1",))
    out, *_ = outcome(sh(fenced, name, opens(fenced, "gpu0", "gpu1", "/dev/null")))
    assert out.decode().split() == ["no", "yes", "yes"]


def test_what_acts_for_a_user_is_not_fenced_and_a_device_that_is_not_known_opens_all(fenced: Machine) -> None:
    for more in ({"acts_for_user": True}, {"devices": ("gpu0", "unknown")}):
        name = fenced.launch("sh", "-c", opens(fenced, "gpu0", "gpu1"), **more)
        fenced.wait(name)
        assert fenced.log(name).decode().split() == ["yes", "yes"]


def test_nothing_runs_where_the_fence_cannot_be_made(fenced: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobCgroups, "path", lambda self, launch_id: f"/nowhere/{launch_id}")
    if not fenced.runtime._cgroups._fence.by_program:
        pytest.skip("here the server makes it")
    state = fenced.run("echo", "ran", **USER)
    assert state.phase is LaunchPhase.EXITED
    assert state.exit is not None
    assert state.exit.reason == "launch_failed"
    assert "cannot keep the job from the GPUs of others" in state.exit.message
    assert b"ran" not in fenced.log(state.exit.reason)


def test_a_fence_goes_with_its_job(fenced: Machine) -> None:
    name = sleeper(fenced, **USER, devices=("gpu0",))
    cgroups, listing = fenced.runtime._cgroups, fenced.runtime._cgroups._fence
    groups = [Path(base, name) for base in (cgroups.base, *listing._lists()) if base is not None]
    assert all(group.exists() for group in groups)
    assert bool(listing._lists()) is not listing.by_program
    fenced.runtime.stop(name)
    fenced.wait(name)
    assert not any(group.exists() for group in groups)
    fenced.runtime.close()
    assert not any(group.parent.exists() for group in groups)


def test_a_fence_that_does_not_hold_is_none(tmp_path: Path) -> None:
    fence = DeviceFence()
    fence.find("corral-none", str(tmp_path), root=str(tmp_path))
    assert not fence.by_program
    assert fence.missing is not None
    assert fence.missing.startswith("the kernel fences no cgroup: ")
