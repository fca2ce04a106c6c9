"""Devices are made ready before their first tenant, released after the last, and every job leaves a witness."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from corral.control.device_setup import DeviceSetup
from corral.model.allocation import Allocation, Grant, Member, Placement
from corral.model.device import Device, Node
from corral.model.errors import BackendFailed
from corral.model.fact import AllocationEnded, AllocationMade, JobSubmitted, NodeObserved
from corral.model.job import Job, JobKind, JobSpec, Request
from corral.model.means import Enforcement, HostMeans, Level, Means
from corral.model.tenant import Tenant
from corral.model.view import View
from corral.sharing.driver import SharingDriver
from corral.sharing.exclusive import Exclusive
from corral.sharing.timeslice import Timeslice

PATIENCE_S = 60.0


class Recording:
    """A means of sharing that notes what was done to which device."""

    means = Means.MPS
    slow = False

    def __init__(self) -> None:
        self.done: list[str] = []

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        other = next((tenant for tenant in tenants if tenant.grant.memory_mib is None), None)
        return None if other is None else f"{device.uuid} has job {other.job_id}, which says not how much it takes"

    def enforcement(self) -> Enforcement:
        return Enforcement(Level.ENFORCED, Level.ENFORCED)

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        return (("PART_OF", f"{device.uuid} {tenant.grant.share_milli}"),)

    def prepare(self, device: Device) -> None:
        self.done.append(f"prepare {device.uuid}")

    def release(self, device: Device) -> None:
        self.done.append(f"release {device.uuid}")


@pytest.fixture
def driver() -> Recording:
    return Recording()


@pytest.fixture
def device_setup(driver: Recording, tmp_path: Path) -> Iterator[DeviceSetup]:
    drivers: dict[Means, SharingDriver] = {
        Means.EXCLUSIVE: Exclusive(),
        Means.TIMESLICE: Timeslice(),
        Means.MPS: driver,
    }
    device_setup = DeviceSetup(drivers, tmp_path)
    yield device_setup
    device_setup.close()


@pytest.fixture
def view() -> View:
    mps = Device("GPU-m", 0, "NVIDIA A100", 81920, means=Means.MPS)
    return View().advance([NodeObserved(Node("here", (mps, Device("GPU-t", 1, "NVIDIA A100", 81920)), 8000, 32768))])


def housed(view: View, number: int, *grants: Grant) -> tuple[View, Job, Allocation]:
    """The view with a job that holds these grants."""
    job = Job(str(number), number, JobSpec("alice", ("true",), request=Request()), 0.0, allocation_id=f"{number}.1")
    allocation = Allocation(f"{number}.1", job.id, "alice", Placement((Member("here", grants),)), 0.0)
    return (
        view.advance([JobSubmitted(job, at=0.0, by="alice"), AllocationMade(allocation, at=0.0, by="test")]),
        job,
        allocation,
    )


def never() -> None:
    raise AssertionError("what is ready at once is not asked for again")


def gone(view: View, allocation: Allocation) -> View:
    return view.advance([AllocationEnded(allocation.id, allocation.job_id, at=1.0, by="test")])


def test_a_device_is_ready_before_the_first_tenant_and_released_after_the_last(
    device_setup: DeviceSetup, driver: Recording, view: View
) -> None:
    both, first, one = housed(view, 1, Grant("GPU-m", 500, 40960))
    both, second, two = housed(both, 2, Grant("GPU-m", 500, 40960))
    device_setup.enter(first, one, both, never)
    device_setup.enter(second, two, both, never)
    left = gone(both, one)
    device_setup.leave(f"{first.id}.1", first.id, left)
    assert driver.done == ["prepare GPU-m"] * 2
    device_setup.leave(f"{second.id}.1", second.id, gone(left, two))
    assert driver.done == ["prepare GPU-m"] * 2 + ["release GPU-m"]


def test_who_has_a_device_whole_has_it_exclusively_whatever_its_means(
    device_setup: DeviceSetup, driver: Recording, view: View
) -> None:
    housed_, job, allocation = housed(view, 1, Grant("GPU-m", 1000))
    device_setup.enter(job, allocation, housed_, never)
    assert (driver.done, device_setup.environment(allocation, housed_)) == ([], ())
    assert device_setup.enforcement(job, allocation.placement, housed_) == Enforcement(Level.ENFORCED, Level.ENFORCED)


def test_the_weakest_device_says_what_stands_behind_a_placement(device_setup: DeviceSetup, view: View) -> None:
    _, job, _ = housed(view, 1)
    placement = Placement((Member("here", (Grant("GPU-m", 500), Grant("GPU-t", 500))),))
    assert device_setup.enforcement(job, placement, view) == Enforcement(Level.GUARDED, Level.ADVISORY)
    assert device_setup.enforcement(job, Placement((Member("here", ()),)), view) is None


def test_what_is_asked_of_the_host_is_held_to_where_the_host_can_and_corral_runs_the_job(
    driver: Recording, view: View, tmp_path: Path
) -> None:
    device_setup = DeviceSetup({Means.EXCLUSIVE: Exclusive()}, tmp_path, HostMeans(cpus=Level.ENFORCED))
    _, job, _ = housed(view, 1)
    both = Placement((Member("here", (), cpu_milli=500, host_memory_mib=64),))
    assert device_setup.enforcement(job, both, view) == Enforcement(cpus=Level.ENFORCED, host_memory=Level.ADVISORY)
    one = Placement((Member("here", (Grant("GPU-t", 1000),), cpu_milli=500),))
    assert device_setup.enforcement(job, one, view) == Enforcement(Level.ENFORCED, Level.ENFORCED, cpus=Level.ENFORCED)
    session = replace(job, spec=replace(job.spec, kind=JobKind.RESERVE))
    assert device_setup.enforcement(session, both, view) == Enforcement(cpus=Level.ADVISORY, host_memory=Level.ADVISORY)
    device_setup.close()


def test_a_part_brings_the_variables_of_its_means(device_setup: DeviceSetup, view: View) -> None:
    housed_, _, allocation = housed(view, 1, Grant("GPU-m", 250, 20480))
    assert device_setup.environment(allocation, housed_) == (("PART_OF", "GPU-m 250"),)


def test_a_device_that_went_away_fails_the_launch_and_not_the_job(device_setup: DeviceSetup, view: View) -> None:
    housed_, job, allocation = housed(view, 1, Grant("GPU-x", 500))
    with pytest.raises(BackendFailed, match="GPU-x is gone"):
        device_setup.enter(job, allocation, housed_, never)


def test_the_means_has_the_last_word_on_who_joins(device_setup: DeviceSetup, driver: Recording, view: View) -> None:
    both, first, one = housed(view, 1, Grant("GPU-m", 500))
    both, second, two = housed(both, 2, Grant("GPU-m", 500, 40960))
    device_setup.enter(first, one, both, never)
    with pytest.raises(BackendFailed, match="GPU-m has job 1, which says not how much"):
        device_setup.enter(second, two, both, never)
    assert driver.done == ["prepare GPU-m"]


def test_a_retry_keeps_its_witness_when_the_attempt_before_it_is_cleared_away(
    device_setup: DeviceSetup, view: View, tmp_path: Path
) -> None:
    housed_, job, allocation = housed(view, 1, Grant("GPU-t", 500, 40960))
    device_setup.enter(job, allocation, housed_, never)
    witness = tmp_path / "1" / "config" / "resource.txt"
    device_setup.leave(f"{job.id}.1", job.id, housed_)
    assert "GPU-t:0.5" in witness.read_text()
    device_setup.leave(f"{job.id}.1", job.id, gone(housed_, allocation))
    assert not witness.exists()


def test_after_a_boot_what_was_prepared_is_taken_over_and_what_nobody_has_is_released(
    device_setup: DeviceSetup, driver: Recording, view: View
) -> None:
    assert device_setup.recover(view) == ()
    assert driver.done == ["release GPU-m"]
    housed_, job, allocation = housed(view, 1, Grant("GPU-m", 500, 40960))
    (missing,) = device_setup.recover(housed_)
    assert "job 1 has an allocation and no resource file" in missing
    assert device_setup.recover(housed_) == ()
    device_setup.leave(f"{job.id}.1", job.id, gone(housed_, allocation))
    assert driver.done == ["release GPU-m"] * 2


def test_a_machine_that_refuses_to_release_is_logged_and_holds_up_nothing(
    device_setup: DeviceSetup,
    driver: Recording,
    view: View,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    housed_, job, allocation = housed(view, 1, Grant("GPU-m", 500, 40960))
    device_setup.enter(job, allocation, housed_, never)

    def refuse(device: Device) -> None:
        raise BackendFailed(f"{device.uuid} cannot be released")

    monkeypatch.setattr(driver, "release", refuse)
    device_setup.leave(f"{job.id}.1", job.id, gone(housed_, allocation))
    assert "GPU-m cannot be released" in caplog.text


@pytest.fixture
def gate(driver: Recording, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The machine takes its time: a device is made ready once the gate is open."""
    gate = threading.Event()

    def prepare(device: Device) -> None:
        assert gate.wait(PATIENCE_S)
        driver.done.append(f"prepare {device.uuid}")

    monkeypatch.setattr(driver, "slow", True)
    monkeypatch.setattr(driver, "prepare", prepare)
    return gate


def test_a_slow_machine_is_asked_again_when_it_is_ready(
    device_setup: DeviceSetup, driver: Recording, view: View, gate: threading.Event, tmp_path: Path
) -> None:
    housed_, job, allocation = housed(view, 1, Grant("GPU-m", 500, 40960))
    ready = threading.Event()
    assert not device_setup.enter(job, allocation, housed_, ready.set)
    assert not device_setup.enter(job, allocation, housed_, ready.set)
    assert not (tmp_path / "1" / "config" / "resource.txt").exists()
    gate.set()
    assert ready.wait(PATIENCE_S)
    assert device_setup.enter(job, allocation, housed_, ready.set)
    assert driver.done == ["prepare GPU-m"]
    assert (tmp_path / "1" / "config" / "resource.txt").exists()


def test_a_tenant_that_left_before_its_device_was_ready_has_it_released_after(
    device_setup: DeviceSetup, driver: Recording, view: View, gate: threading.Event
) -> None:
    housed_, job, allocation = housed(view, 1, Grant("GPU-m", 500, 40960))
    device_setup.enter(job, allocation, housed_, lambda: None)
    device_setup.leave(allocation.id, job.id, gone(housed_, allocation))
    assert driver.done == []
    gate.set()
    deadline = time.monotonic() + PATIENCE_S
    while len(driver.done) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert driver.done == ["prepare GPU-m", "release GPU-m"]


def test_a_machine_that_fails_in_its_own_time_fails_the_launch(
    device_setup: DeviceSetup, driver: Recording, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(device: Device) -> None:
        raise BackendFailed(f"{device.uuid} does not start")

    monkeypatch.setattr(driver, "slow", True)
    monkeypatch.setattr(driver, "prepare", refuse)
    housed_, job, allocation = housed(view, 1, Grant("GPU-m", 500, 40960))
    done = threading.Event()

    def enter_when_ready() -> None:
        while not device_setup.enter(job, allocation, housed_, done.set):
            assert done.wait(PATIENCE_S)

    with pytest.raises(BackendFailed, match="GPU-m does not start"):
        enter_when_ready()


def test_a_grant_for_one_tenant_is_seen_in_the_view(view: View) -> None:
    housed_, _, allocation = housed(view, 1, replace(Grant("GPU-m", 500), tenant="alice"))
    assert (housed_.tenant("GPU-m"), gone(housed_, allocation).tenant("GPU-m")) == ("alice", None)
