"""Readers in processes on a driver library that the tests built: one GPU hangs, all do, the driver crashes."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from corral.clock import SystemClock
from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.vitals import ReadFailure
from corral.core.model.errors import BackendFailed
from corral.host.telemetry.driver_thread import CallHung
from corral.host.telemetry.reading import patient_reader
from corral.host.telemetry.reading.patient_reader import PatientReader
from corral.host.telemetry.reading.process_worker import ProcessWorker
from tests.vendors.nvidia.nvml_stub import NvmlStub, nvml_library, nvml_stub, stub_uuid

__all__ = ["nvml_library", "nvml_stub"]

PATIENCE_S = 60.0
HANG_S = 0.3
"""Shorter than in production, and longer than any call of the stub on a busy machine."""


@dataclass
class Rig:
    """A reader with its processes, on the stub."""

    stub: NvmlStub
    hired: list[ProcessWorker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reader = PatientReader(self.hire, SystemClock(), hang_s=HANG_S)

    def hire(self) -> ProcessWorker:
        self.hired.append(ProcessWorker(SystemClock().boot_at, {}))
        return self.hired[-1]

    def read(self, timeout_s: float = PATIENCE_S) -> dict[int, DeviceSample]:
        """The samples by index."""
        sight = self.reader.read(timeout_s)
        assert sight.node is not None
        indices = {device.uuid: device.index for device in sight.node.devices}
        return {indices[sample.uuid]: sample for sample in sight.samples}

    def faults(self) -> dict[int, ReadFailure | None]:
        return {index: sample.failure for index, sample in self.read().items()}


@pytest.fixture
def rig(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    for name, value in nvml_stub.env.items():
        monkeypatch.setenv(name, value)
    rig = Rig(nvml_stub)
    yield rig
    nvml_stub.say()
    rig.reader.close()
    eventually(lambda: all(worker.ended() for worker in rig.hired))


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.01)


WELL = dict.fromkeys(range(8))


def test_all_devices_are_read_in_another_process(rig: Rig) -> None:
    samples = rig.read()
    assert rig.faults() == WELL
    assert samples[3].power_mw == 63_000
    assert rig.reader.source == "nvml"
    assert [sample.uuid for sample in rig.reader.read(PATIENCE_S, [stub_uuid(5)]).samples] == [stub_uuid(5)]
    assert len(rig.hired) == 1


def test_the_others_are_read_in_the_same_round_and_the_one_that_hangs_comes_back_by_itself(rig: Rig) -> None:
    rig.read()
    rig.stub.say("gpu 3 hang 1")
    began_s = time.monotonic()
    samples = rig.read()
    assert time.monotonic() - began_s < HANG_S + patient_reader.REPLACED_WITHIN_S + 1
    assert {index: sample.failure for index, sample in samples.items()} == {**WELL, 3: ReadFailure.HUNG}
    assert samples[7].power_mw == 67_000
    assert rig.faults() == {**WELL, 3: ReadFailure.HUNG}
    rig.stub.say()
    eventually(lambda: rig.faults() == WELL)


def test_a_device_that_hangs_from_the_first_call_on_keeps_no_other_from_being_read(rig: Rig) -> None:
    rig.stub.say("gpu 0 hang 1")
    assert rig.faults() == {**WELL, 0: ReadFailure.HUNG}


def test_where_the_lock_of_the_driver_is_held_all_are_unreadable_and_it_is_said(rig: Rig) -> None:
    rig.read()
    rig.stub.say("gpu 3 hang 1", "locked 1")
    assert {sample.failure for sample in rig.read().values()} == {ReadFailure.DRIVER, ReadFailure.HUNG}
    eventually(lambda: refusal(rig) == HELD)
    processes = len(rig.hired)
    for _ in range(3):
        assert refusal(rig) == HELD
    assert len(rig.hired) == processes
    rig.stub.say()
    eventually(lambda: answers(rig) == WELL)


HELD = f"the driver answers for no GPU: a call about GPU 0 ({stub_uuid(0)}) hangs, and the driver's lock is held"
"""Where all calls hang, the one that hangs first is the first that is made."""


def refusal(rig: Rig) -> str | None:
    """Why no device can be read."""
    try:
        rig.read()
    except BackendFailed as error:
        return str(error)
    return None


def answers(rig: Rig) -> dict[int, ReadFailure | None] | None:
    try:
        return rig.faults()
    except BackendFailed:
        return None


def test_two_devices_that_hang_are_both_left_aside(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_reader, "TRY_AGAIN_S", 5.0)
    rig.read()
    rig.stub.say("gpu 0 hang 1", "gpu 1 hang 1")
    eventually(lambda: answers(rig) == {**WELL, 0: ReadFailure.HUNG, 1: ReadFailure.HUNG})
    rig.stub.say()
    eventually(lambda: answers(rig) == WELL)


def test_a_process_that_dies_is_replaced_after_a_while(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.read()
    os.kill(rig.hired[0]._process.pid, signal.SIGKILL)
    with pytest.raises(BackendFailed, match="signal 9"):
        rig.read()
    with pytest.raises(BackendFailed, match="started again"):
        rig.read()
    monkeypatch.setattr(patient_reader, "HIRE_AGAIN_S", 0.0)
    assert rig.faults() == WELL


def test_a_reader_that_closes_leaves_no_process(rig: Rig) -> None:
    rig.read()
    rig.stub.say("gpu 3 hang 1")
    rig.read()
    rig.read()
    rig.reader.close()
    eventually(lambda: all(worker.ended() for worker in rig.hired))


def test_a_process_whose_reader_has_gone_ends_by_itself(rig: Rig) -> None:
    rig.read()
    rig.stub.say("gpu 3 hang 1")
    with pytest.raises(CallHung):
        rig.read(0.05)
    rig.hired[0]._line.close()
    eventually(rig.hired[0].ended)


def test_a_call_that_is_slow_but_returns_is_not_given_up(rig: Rig) -> None:
    rig.read()
    rig.stub.say("gpu 3 hang 1")
    with pytest.raises(CallHung, match=r"has not answered for 0\.05 s"):
        rig.read(0.05)
    rig.stub.say()
    assert rig.faults() == WELL
    assert len(rig.hired) == 1
