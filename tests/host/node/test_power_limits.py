"""A job's power limit is set before it starts and undone after it: whatever the driver says, and whoever crashes."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import BackendFailed, CorralError
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import DeviceUse, Launch
from corral.host.node import power_limits
from corral.host.node.device_setup import DeviceSetup
from corral.host.node.power_limits import PowerLimits
from corral.host.telemetry.driver_thread import CallHung
from corral.vendors.sharing_without_setup import Exclusive

EVENT_S = 60.0
USUAL_MW = 400_000

ONE, OTHER = (Device(f"GPU-{name}", index, "NVIDIA A100", 81920) for index, name in enumerate("ab"))
HERE = Node("here", (ONE, OTHER), 8000, 32768)


@dataclass
class Driver:
    """Stands in for a driver: it refuses limits of devices that are `refusing`, and answers nothing if `mute`.

    A limit is set once the `gate` is open.
    """

    limits: dict[str, int] = field(default_factory=lambda: {ONE.uuid: USUAL_MW, OTHER.uuid: USUAL_MW})
    refusing: set[str] = field(default_factory=set)
    mute: bool = False
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def limit_mw(self, uuid: str) -> int:
        if self.mute:
            raise BackendFailed("the driver does not answer")
        return self.limits[uuid]

    def set_limit_mw(self, uuid: str, limit_mw: int) -> None:
        self.limit_mw(uuid)
        assert self.gate.wait(EVENT_S)
        if uuid in self.refusing:
            raise BackendFailed(f"the driver refuses a power limit for {uuid}: Insufficient Permissions")
        self.limits[uuid] = limit_mw


@pytest.fixture
def driver() -> Driver:
    return Driver()


@contextmanager
def agent(driver: Driver, home: Path) -> Iterator[DeviceSetup]:
    """The devices of an agent, which ends without a word to them."""
    power = PowerLimits(home / "power-limits", lambda _: driver)
    with closing(DeviceSetup(lambda *_: Exclusive(), lambda: HERE, power)) as devices:
        yield devices


def launch(number: int, *devices: Device, limit_w: int | None) -> Launch:
    request = Request(devices=len(devices), power_limit_w=limit_w)
    job = Job(str(number), number, JobSpec("alice", ("true",), request=request), 0.0)
    uses = (DeviceUse(one, None, (), Tenant(job.id, "alice", Grant(one.uuid, 1000))) for one in devices)
    return Launch(f"{number}.1", job, (), uses=tuple(uses))


def enter(devices: DeviceSetup, launch: Launch) -> CorralError | None:
    """Make the devices ready and wait for that; what failed."""
    told: queue.Queue[CorralError | None] = queue.Queue()
    devices.enter(launch, told.put)
    return told.get(timeout=EVENT_S)


def settled(devices: DeviceSetup, *some: Device) -> None:
    """Wait until nothing is to be done with these devices any more."""
    for device in some or (ONE, OTHER):
        done: queue.Queue[None] = queue.Queue()
        devices._queues.put(device.uuid, partial(done.put, None))
        done.get(timeout=EVENT_S)


def records(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "power-limits").iterdir())


def test_a_limit_holds_from_before_the_start_until_after_the_end(driver: Driver, tmp_path: Path) -> None:
    with agent(driver, tmp_path) as devices:
        assert enter(devices, launch(1, ONE, limit_w=300)) is None
        assert driver.limits == {ONE.uuid: 300_000, OTHER.uuid: USUAL_MW}
        devices.leave("1.1")
        settled(devices)
    assert driver.limits == {ONE.uuid: USUAL_MW, OTHER.uuid: USUAL_MW}
    assert records(tmp_path) == []


def test_a_job_without_a_limit_asks_the_driver_nothing(driver: Driver, tmp_path: Path) -> None:
    driver.mute = True
    with agent(driver, tmp_path) as devices:
        assert enter(devices, launch(1, ONE, limit_w=None)) is None
        devices.leave("1.1")
    assert not (tmp_path / "power-limits").exists()


def test_a_refused_limit_fails_the_launch_in_the_drivers_words_and_leaves_all_devices_as_they_were(
    driver: Driver, tmp_path: Path
) -> None:
    driver.refusing.add(OTHER.uuid)
    with agent(driver, tmp_path) as devices:
        failure = enter(devices, launch(1, ONE, OTHER, limit_w=300))
        assert isinstance(failure, BackendFailed)
        assert "Insufficient Permissions" in str(failure)
        devices.leave("1.1")
        settled(devices)
    assert driver.limits == {ONE.uuid: USUAL_MW, OTHER.uuid: USUAL_MW}
    assert records(tmp_path) == []


def test_a_limit_of_a_job_that_ended_while_no_agent_ran_is_undone_by_the_next_one(
    driver: Driver, tmp_path: Path
) -> None:
    with agent(driver, tmp_path) as devices:
        assert enter(devices, launch(1, ONE, limit_w=300)) is None
        assert enter(devices, launch(2, OTHER, limit_w=250)) is None
    with agent(driver, tmp_path) as devices:
        devices.restore([launch(2, OTHER, limit_w=250)])
        settled(devices)
        assert driver.limits == {ONE.uuid: USUAL_MW, OTHER.uuid: 250_000}
        devices.leave("2.1")
        settled(devices)
    assert driver.limits == {ONE.uuid: USUAL_MW, OTHER.uuid: USUAL_MW}
    assert records(tmp_path) == []


def test_a_crash_between_the_record_and_the_change_changes_nothing(driver: Driver, tmp_path: Path) -> None:
    with agent(driver, tmp_path) as devices:
        assert enter(devices, launch(1, ONE, limit_w=300)) is None
    driver.limits[ONE.uuid] = USUAL_MW
    with agent(driver, tmp_path) as devices:
        devices.restore([])
        settled(devices)
    assert driver.limits[ONE.uuid] == USUAL_MW
    assert records(tmp_path) == []


def test_a_limit_that_an_administrator_has_set_since_is_left(driver: Driver, tmp_path: Path) -> None:
    with agent(driver, tmp_path) as devices:
        assert enter(devices, launch(1, ONE, limit_w=300)) is None
        driver.limits[ONE.uuid] = 350_000
        devices.leave("1.1")
        settled(devices)
    assert driver.limits[ONE.uuid] == 350_000
    assert records(tmp_path) == []


def test_a_limit_that_the_driver_rounded_is_undone(driver: Driver, tmp_path: Path) -> None:
    with agent(driver, tmp_path) as devices:
        assert enter(devices, launch(1, ONE, limit_w=300)) is None
        driver.limits[ONE.uuid] = 299_500
        devices.leave("1.1")
        settled(devices)
    assert driver.limits[ONE.uuid] == USUAL_MW


def test_nobody_gets_the_limit_of_an_earlier_job_whose_driver_did_not_answer_at_its_end(
    driver: Driver, tmp_path: Path
) -> None:
    with agent(driver, tmp_path) as devices:
        assert enter(devices, launch(1, ONE, limit_w=300)) is None
        driver.mute = True
        devices.leave("1.1")
        settled(devices)
        assert records(tmp_path) == ["GPU-a.json"]
        assert "does not answer" in str(enter(devices, launch(2, ONE, limit_w=None)))
        devices.leave("2.1")
        settled(devices)
        driver.mute = False
        assert enter(devices, launch(3, ONE, limit_w=None)) is None
    assert driver.limits[ONE.uuid] == USUAL_MW
    assert records(tmp_path) == []


def test_the_next_jobs_limit_follows_the_devices_own(driver: Driver, tmp_path: Path) -> None:
    with agent(driver, tmp_path) as devices:
        for number, limit_w in ((1, 300), (2, 200)):
            assert enter(devices, launch(number, ONE, limit_w=limit_w)) is None
            devices.leave(f"{number}.1")
        settled(devices)
    assert driver.limits[ONE.uuid] == USUAL_MW


def test_a_driver_that_hangs_fails_the_launch_and_what_it_does_later_is_undone(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power_limits, "PATIENCE_S", 0.05)
    with agent(driver, tmp_path) as devices:
        driver.gate.clear()
        assert isinstance(enter(devices, launch(1, ONE, limit_w=300)), CallHung)
        assert records(tmp_path) == ["GPU-a.json"]
        monkeypatch.setattr(power_limits, "PATIENCE_S", EVENT_S)
        driver.gate.set()
        devices.leave("1.1")
        settled(devices)
    assert driver.limits[ONE.uuid] == USUAL_MW
    assert records(tmp_path) == []


def test_no_limit_changes_that_cannot_be_noted(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "power-limits").write_text("not a directory")
    with agent(driver, tmp_path) as devices:
        assert "is not changed" in str(enter(devices, launch(1, ONE, limit_w=300)))
    assert driver.limits[ONE.uuid] == USUAL_MW


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"uuid": ONE.uuid, "before_mw": -1, "limit_mw": 2})])
def test_a_record_that_makes_no_sense_is_told_and_changes_nothing(
    driver: Driver, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "power-limits").mkdir()
    (tmp_path / "power-limits" / "GPU-a.json").write_text(text)
    with agent(driver, tmp_path) as devices:
        devices.restore([])
        settled(devices)
    assert driver.limits[ONE.uuid] == USUAL_MW
    assert "may still have the power limit of a job" in caplog.text


def test_a_device_is_shown_with_the_limit_that_it_has_without_a_job(driver: Driver, tmp_path: Path) -> None:
    power = PowerLimits(tmp_path / "power-limits", lambda _: driver)
    power.set(ONE, 300_000)
    assert (power.before_mw(ONE.uuid), power.before_mw(OTHER.uuid)) == (USUAL_MW, None)
    again = PowerLimits(tmp_path / "power-limits", lambda _: driver)
    assert again.before_mw(ONE.uuid) == USUAL_MW
    again.restore(ONE.uuid)
    assert (again.before_mw(ONE.uuid), driver.limits[ONE.uuid]) == (None, USUAL_MW)
    power.close()
    again.close()
