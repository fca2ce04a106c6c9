import logging
from collections.abc import Iterator

import pytest

from corral.core.model.devices.device import Device, DeviceCondition, DeviceProcess
from corral.host.telemetry.state_log import MOST_CHANGES, WINDOW_S, StateLog

DEVICES = {uuid: Device(uuid, index, "Mock", 1024) for index, uuid in enumerate(("GPU-a", "GPU-b"))}
WELL = {uuid: DeviceCondition(uuid) for uuid in DEVICES}
LOST = DeviceCondition("GPU-a", unreadable="the device is lost")


class Looked:
    """A log of states, and what it has said since it was asked last."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.log = StateLog()
        self.devices = dict(DEVICES)
        self.now_s = 1000.0
        self._caplog = caplog

    def __call__(self, *conditions: DeviceCondition, after_s: float = 1.0) -> list[str]:
        self.now_s += after_s
        self._caplog.clear()
        known = {uuid: WELL.get(uuid, DeviceCondition(uuid)) for uuid in self.devices}
        self.log.look(self.devices, {**known, **{one.uuid: one for one in conditions}}, self.now_s)
        return [f"{record.levelname} {record.getMessage()}" for record in self._caplog.records]


@pytest.fixture
def look(caplog: pytest.LogCaptureFixture) -> Iterator[Looked]:
    with caplog.at_level(logging.INFO, "corral.host.telemetry.state_log"):
        yield Looked(caplog)


def test_a_change_is_told_once_and_the_way_back_with_how_long_it_took(look: Looked) -> None:
    assert look() == []
    assert look(LOST) == ["WARNING GPU 0 (GPU-a): unreadable: the device is lost; nothing starts on it"]
    assert look(LOST) == []
    assert look(after_s=119.0) == ["INFO GPU 0 (GPU-a): can be read again after 2m"]
    assert look() == []


def test_what_is_not_well_at_the_first_look_is_told(look: Looked) -> None:
    assert look(LOST) == ["WARNING GPU 0 (GPU-a): unreadable: the device is lost; nothing starts on it"]


def test_a_reason_whose_numbers_move_is_the_same_and_another_reason_is_news(look: Looked) -> None:
    def hot(celsius: int) -> DeviceCondition:
        return DeviceCondition("GPU-a", unhealthy=f"it is at {celsius}°C; at most 95°C is allowed")

    assert look(hot(97)) == [
        "WARNING GPU 0 (GPU-a): unhealthy: it is at 97°C; at most 95°C is allowed; nothing starts on it"
    ]
    assert look(hot(98)) == look(hot(101)) == []
    assert look(DeviceCondition("GPU-a", unhealthy="2 memory errors")) == [
        "WARNING GPU 0 (GPU-a): unhealthy: 2 memory errors; nothing starts on it"
    ]
    assert look(LOST)[0].startswith("WARNING GPU 0 (GPU-a): unreadable")


def test_strangers_are_told_when_they_come_and_when_they_are_gone(look: Looked) -> None:
    used = DeviceCondition("GPU-b", strangers=tuple(DeviceProcess(pid, user="bob") for pid in (7, 8, 9, 10)))
    assert look(used) == ["INFO GPU 1 (GPU-b): in use by bob/7, bob/8, bob/9 and 1 more, which Corral did not start"]
    assert look(DeviceCondition("GPU-b", strangers=(DeviceProcess(11),))) == []
    assert look() == ["INFO GPU 1 (GPU-b): nobody else uses it any more"]
    assert look(LOST) != []
    back = look(DeviceCondition("GPU-a", strangers=(DeviceProcess(11),)))
    assert back == ["INFO GPU 0 (GPU-a): can be read again after 1s, in use by ?/11, which Corral did not start"]


def test_what_becomes_of_all_devices_at_once_is_one_line(look: Looked) -> None:
    hung = [DeviceCondition(uuid, unreadable="the driver has not answered for 9 s") for uuid in DEVICES]
    assert look(*hung) == [
        "WARNING GPU 0 (GPU-a), 1 (GPU-b): unreadable: the driver has not answered for 9 s; nothing starts on it"
    ]
    assert look() == ["INFO GPU 0 (GPU-a), 1 (GPU-b): can be read again after 1s"]


def test_a_device_that_keeps_changing_is_told_of_again_when_it_is_calm(look: Looked) -> None:
    said = [line for number in range(200) for line in look(*([LOST] if number % 2 else []))]
    assert len(said) == MOST_CHANGES
    assert "it keeps changing, and is logged again after it has been stable for 10m" in said[-1]
    assert look(LOST, after_s=WINDOW_S - 2) == []
    (calm,) = look(LOST, after_s=10.0)
    assert calm.startswith("WARNING GPU 0 (GPU-a): unreadable: the device is lost; nothing starts on it; so for 10m 8s")
    assert calm.endswith("after 193 changes that were not logged")
    assert look(LOST, after_s=WINDOW_S) == []
    assert look() == ["INFO GPU 0 (GPU-a): can be read again after 20m 9s"]


def test_slow_changes_are_all_told(look: Looked) -> None:
    said = [look(*([LOST] if number % 2 else []), after_s=WINDOW_S / 4) for number in range(1, 21)]
    assert all(len(lines) == 1 for lines in said)


def test_devices_that_come_and_go_are_told(look: Looked) -> None:
    look()
    gone = look.devices.pop("GPU-b")
    assert look() == ["WARNING GPU 1 (GPU-b) is gone: the driver no longer names it"]
    look.devices["GPU-b"] = gone
    assert look() == ["INFO GPU 1 (GPU-b) is new"]


def test_of_the_slices_of_a_device_that_is_lost_nothing_is_told(look: Looked) -> None:
    look.devices["MIG-a"] = Device("MIG-a", 0, "Mock", 512, parent_uuid="GPU-a")
    cut = DeviceCondition("MIG-a", unreadable="the device it is cut from is lost")
    assert len(look(LOST, cut)) == 1
    assert look(cut) == [
        "INFO GPU 0 (GPU-a): can be read again after 1s",
        "WARNING GPU 0 (MIG-a): unreadable: the device it is cut from is lost; nothing starts on it",
    ]
