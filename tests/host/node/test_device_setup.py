"""Devices are made ready before their first tenant and released after the last, in order."""

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import BackendFailed, CorralError
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import DeviceUse, Launch
from corral.host.node.device_setup import WORKERS, DeviceSetup, WorkerQueues
from corral.host.node.power_limits import PowerLimits
from corral.vendors.registry import vendor_named
from corral.vendors.sharing_driver import SharingDriver
from corral.vendors.sharing_without_setup import Exclusive, Timeslice

EVENT_S = 60.0

SHARED = Device("GPU-m", 0, "NVIDIA A100", 81920, means=Means.MPS)
OTHER = Device("GPU-n", 1, "NVIDIA A100", 81920, means=Means.MPS)
HERE = Node("here", (SHARED, OTHER, Device("GPU-t", 2, "NVIDIA A100", 81920)), 8000, 32768)


class Recording:
    """A means of sharing that notes what was done to which device, and waits for its gate."""

    means = Means.MPS

    def __init__(self, *, slow: bool) -> None:
        self.slow = slow
        self.done: queue.Queue[str] = queue.Queue()
        self.gate = threading.Event()
        self.gate.set()
        self.broken: set[str] = set()

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        other = next((tenant for tenant in tenants if tenant.grant.memory_mib is None), None)
        return None if other is None else f"{device.uuid} has job {other.job_id}, which says not how much it takes"

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        return (("PART_OF", f"{device.uuid} {tenant.grant.share_milli}"),)

    def prepare(self, device: Device) -> None:
        assert self.gate.wait(EVENT_S)
        if device.uuid in self.broken:
            raise BackendFailed(f"{device.uuid} does not start")
        self.done.put(f"prepare {device.uuid}")

    def release(self, device: Device) -> None:
        if device.uuid in self.broken:
            raise BackendFailed(f"{device.uuid} cannot be released")
        self.done.put(f"release {device.uuid}")

    def heard(self, count: int) -> list[str]:
        """So many things that were done, in their order."""
        return [self.done.get(timeout=EVENT_S) for _ in range(count)]


@pytest.fixture(params=[False, True], ids=["at once", "slow"])
def driver(request: pytest.FixtureRequest) -> Recording:
    return Recording(slow=request.param)


@pytest.fixture
def devices(driver: Recording, tmp_path: Path) -> Iterator[DeviceSetup]:
    drivers: dict[Means, SharingDriver] = {
        Means.EXCLUSIVE: Exclusive(),
        Means.TIMESLICE: Timeslice(),
        Means.MPS: driver,
    }
    power = PowerLimits(tmp_path / "power-limits", lambda vendor: vendor_named(vendor).power())
    devices = DeviceSetup(lambda device, milli: drivers[device.held_by(milli)], lambda: HERE, power)
    yield devices
    driver.gate.set()
    devices.close()


def use(
    device: Device, share_milli: int = 500, memory_mib: int | None = 40960, tenants: tuple[Tenant, ...] = ()
) -> DeviceUse:
    return DeviceUse(device, None, tenants, Tenant("0", "alice", Grant(device.uuid, share_milli, memory_mib)))


def launch(number: int, *uses: DeviceUse) -> Launch:
    job = Job(str(number), number, JobSpec("alice", ("true",)), 0.0)
    return Launch(f"{number}.1", job, (), uses=uses)


def enter(devices: DeviceSetup, launch: Launch) -> CorralError | None:
    """Make the devices ready and wait for that; what failed."""
    told: queue.Queue[CorralError | None] = queue.Queue()
    devices.enter(launch, told.put)
    failure = told.get(timeout=EVENT_S)
    assert told.empty()
    return failure


def test_a_device_is_ready_before_the_first_tenant_and_released_after_the_last(
    devices: DeviceSetup, driver: Recording
) -> None:
    for number in (1, 2):
        assert enter(devices, launch(number, use(SHARED))) is None
    assert driver.heard(2) == ["prepare GPU-m"] * 2
    devices.leave("1.1")
    devices.leave("2.1")
    assert driver.heard(1) == ["release GPU-m"]
    assert driver.done.empty()


def test_all_devices_of_a_launch_are_ready_before_it_goes_on(devices: DeviceSetup, driver: Recording) -> None:
    assert enter(devices, launch(1, use(SHARED), use(OTHER))) is None
    assert sorted(driver.heard(2)) == ["prepare GPU-m", "prepare GPU-n"]


def test_who_has_a_device_whole_has_it_exclusively_whatever_its_means(devices: DeviceSetup, driver: Recording) -> None:
    whole = launch(1, use(SHARED, 1000))
    assert enter(devices, whole) is None
    assert driver.done.empty()
    assert devices.environment(whole) == {}


def test_a_part_brings_the_variables_of_its_means(devices: DeviceSetup) -> None:
    assert devices.environment(launch(1, use(SHARED, 250))) == {"PART_OF": "GPU-m 250"}


def test_a_device_that_went_away_fails_the_launch(devices: DeviceSetup, driver: Recording) -> None:
    failure = enter(devices, launch(1, use(SHARED), use(replace(SHARED, uuid="GPU-x"))))
    assert str(failure) == "GPU-x is gone; the job will be placed on another device"
    assert driver.done.empty()


def test_the_means_has_the_last_word_on_who_joins(devices: DeviceSetup, driver: Recording) -> None:
    failure = enter(devices, launch(2, use(SHARED, tenants=(Tenant("1", "bob", Grant("GPU-m", 500)),))))
    assert "GPU-m has job 1, which says not how much it takes" in str(failure)
    assert driver.done.empty()


def test_a_device_that_does_not_start_fails_the_launch_and_not_the_next_device(
    devices: DeviceSetup, driver: Recording
) -> None:
    driver.broken.add("GPU-m")
    assert str(enter(devices, launch(1, use(SHARED)))) == "GPU-m does not start"
    assert enter(devices, launch(2, use(OTHER))) is None


@pytest.mark.parametrize("driver", [True], indirect=True)
def test_a_tenant_that_left_before_its_device_was_ready_has_it_released_after(
    devices: DeviceSetup, driver: Recording
) -> None:
    driver.gate.clear()
    devices.enter(launch(1, use(SHARED)), lambda _: None)
    devices.leave("1.1")
    assert driver.done.empty()
    driver.gate.set()
    assert driver.heard(2) == ["prepare GPU-m", "release GPU-m"]


@pytest.mark.parametrize("driver", [True], indirect=True)
def test_a_device_that_takes_its_time_holds_up_no_other(devices: DeviceSetup, driver: Recording) -> None:
    driver.gate.clear()
    waiting = threading.Event()
    devices.enter(launch(1, use(SHARED)), lambda _: waiting.set())
    assert enter(devices, launch(2, use(OTHER, 1000))) is None
    assert not waiting.is_set()
    driver.gate.set()
    assert waiting.wait(EVENT_S)


def test_a_new_agent_takes_over_what_was_prepared_and_releases_what_nobody_has(
    devices: DeviceSetup, driver: Recording
) -> None:
    devices.restore((launch(1, use(SHARED)),))
    assert driver.heard(1) == ["release GPU-n"]
    assert devices.allocated_milli() == {"GPU-m": 500}
    devices.leave("1.1")
    assert driver.heard(1) == ["release GPU-m"]


def test_what_is_held_no_more_after_a_silence_is_released(devices: DeviceSetup, driver: Recording) -> None:
    for number, device in ((1, SHARED), (2, OTHER)):
        assert enter(devices, launch(number, use(device))) is None
    driver.heard(2)
    devices.restore((launch(2, use(OTHER)),))
    assert driver.heard(1) == ["release GPU-m"]
    assert driver.done.empty()


@pytest.mark.parametrize("driver", [False], indirect=True)
def test_a_device_that_cannot_be_released_is_logged_and_holds_up_nothing(
    devices: DeviceSetup, driver: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    assert enter(devices, launch(1, use(SHARED), use(OTHER))) is None
    driver.broken.add("GPU-m")
    devices.leave("1.1")
    assert "GPU-m cannot be released" in caplog.text
    assert "release GPU-n" in driver.heard(3)


def test_the_clients_of_a_means_are_those_that_have_a_part(devices: DeviceSetup) -> None:
    for number, part in ((1, use(SHARED, 250)), (2, use(SHARED, 250)), (3, use(OTHER, 1000))):
        assert enter(devices, launch(number, part)) is None
    assert devices.clients(Means.MPS) == {"GPU-m": (SHARED, ("1.1", "2.1"))}


PATIENCE_S = 60.0


def wait(gate: threading.Event) -> None:
    assert gate.wait(PATIENCE_S)


@pytest.fixture
def queues() -> Iterator[WorkerQueues]:
    queues = WorkerQueues("devices")
    yield queues
    queues.close()


def test_what_is_put_under_a_key_keeps_its_order_however_long_it_takes(queues: WorkerQueues) -> None:
    gate, done, last = threading.Event(), list[int](), threading.Event()
    queues.put("GPU-a", partial(wait, gate))
    for number in range(20):
        queues.put("GPU-a", partial(done.append, number))
    queues.put("GPU-a", last.set)
    gate.set()
    wait(last)
    assert done == list(range(20))


def test_a_key_that_is_held_up_holds_up_no_other(queues: WorkerQueues) -> None:
    gate, other = threading.Event(), threading.Event()
    for number in range(WORKERS - 1):
        queues.put(f"GPU-{number}", partial(wait, gate))
    queues.put("GPU-z", other.set)
    wait(other)
    gate.set()


def test_what_fails_keeps_nothing_after_it_from_being_done(queues: WorkerQueues) -> None:
    def fail() -> None:
        raise BackendFailed("it hangs")

    done = threading.Event()
    queues.put("GPU-a", fail)
    queues.put("GPU-a", done.set)
    wait(done)
