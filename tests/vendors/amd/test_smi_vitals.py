"""What the real amdsmi reads of a device's health from a library that stands in for the driver's."""

import os
from dataclasses import replace

import pytest

from corral.clock import ManualClock
from corral.core.model.devices.device import DeviceProcess, throttle_reasons
from corral.core.model.devices.health import SignKind, Verdict
from corral.core.model.devices.vitals import DriverError
from corral.core.ports.telemetry import Care
from corral.host.telemetry.signs.device_signs import signs_of
from corral.host.telemetry.signs.reading import NOTHING_BEFORE
from corral.host.telemetry.signs.sign_rules import LASTS_S
from corral.vendors.amd.smi import open_amdsmi
from corral.vendors.amd.smi_events import PAGE_FAULT
from corral.vendors.amd.smi_vitals import VITALS_AGE_S
from tests.vendors.amd.amdsmi_stub import AmdSmiStub

WATCHES = Care()
"""As the reader of a node has it, and not who looks once."""

SIGNS = [
    ("temp 100", SignKind.TEMPERATURE, Verdict.SUSPECT),
    ("temp 106", SignKind.TEMPERATURE, Verdict.QUARANTINE),
    ("ecc 1", SignKind.ECC_UNCORRECTABLE, Verdict.QUARANTINE),
    ("pending 1", SignKind.REMAP_PENDING, Verdict.SUSPECT),
    ("unreservable 1", SignKind.REMAP_FAILED, Verdict.QUARANTINE),
    ("lanes 8", SignKind.PCIE, Verdict.SUSPECT),
    ("speed 8000", SignKind.PCIE, Verdict.SUSPECT),
    ("replays 1000", SignKind.PCIE, Verdict.TOLD),
    ("xgmi 1", SignKind.NVLINK, Verdict.SUSPECT),
    ("lost 1", SignKind.LOST, Verdict.QUARANTINE),
    ("prochot 90", SignKind.THROTTLE, Verdict.SUSPECT),
    ("hot 60", SignKind.THROTTLE, Verdict.TOLD),
    ("fault 4711", SignKind.XID, Verdict.BLAMES_JOB),
    ("reset 1", SignKind.XID, Verdict.TOLD),
]
NO_SIGNS: list[tuple[str, SignKind | None, Verdict | None]] = [
    (said, None, None) for said in ("reserved 7", "hot 40", "capped 100", "speed 64000", "speed 1234")
]


@pytest.mark.parametrize("expected", [*SIGNS, *NO_SIGNS])
def test_the_driver_shows_each_sign_to_the_code_that_runs_on_a_real_gpu(
    amdsmi_stub: AmdSmiStub, expected: tuple[str, SignKind | None, Verdict | None]
) -> None:
    said, kind, verdict = expected
    clock = ManualClock(1000.0)
    amdsmi_stub.say("gpu 0 util 90")
    source, memory = open_amdsmi(clock, WATCHES), NOTHING_BEFORE
    device = replace(source.found().devices[0], vendor="amd")
    found = set()
    _, memory = signs_of(device, source.sample([device.uuid])[0], memory, max_temperature_c=110)
    amdsmi_stub.say("gpu 0 util 90", f"gpu 0 {said}")
    for _ in range(1 + int(LASTS_S / VITALS_AGE_S)):
        clock.advance(VITALS_AGE_S)
        signs, memory = signs_of(device, source.sample([device.uuid])[0], memory, max_temperature_c=110)
        found |= {(sign.kind, sign.verdict) for sign in signs}
    assert found == (set() if kind is None else {(kind, verdict)})


def test_a_page_fault_names_its_process_once_also_if_its_name_is_no_text(amdsmi_stub: AmdSmiStub) -> None:
    source, other = open_amdsmi(ManualClock(1000.0), WATCHES), open_amdsmi(ManualClock(1000.0))
    source.sample()
    other.sample()
    amdsmi_stub.say("gpu 1 fault 4711")
    assert [sample.errors for sample in source.sample()] == [(), (DriverError(PAGE_FAULT, 1000.0, pid=4711),)]
    assert [sample.errors for sample in source.sample()] == [(), ()]
    assert [sample.errors for sample in other.sample()] == [(), ()], "it only looks, and opens no driver"


def test_who_listens_to_the_driver_is_no_process_of_a_device(amdsmi_stub: AmdSmiStub) -> None:
    amdsmi_stub.say(f"gpu 0 process {os.getpid()} 0", "gpu 0 process 42 4096")
    assert open_amdsmi(ManualClock(), WATCHES).sample()[0].processes == (DeviceProcess(42, 4096),)


def test_what_lowers_clocks_is_read_as_nvml_names_it(amdsmi_stub: AmdSmiStub) -> None:
    clock = ManualClock(1000.0)
    amdsmi_stub.say("gpu 0 capped 80", "gpu 0 hot 70")
    source = open_amdsmi(clock)
    assert source.sample()[0].throttle is None, "a count alone says nothing"
    clock.advance(VITALS_AGE_S)
    hot, well = source.sample()
    assert (throttle_reasons(hot.throttle or 0), well.throttle) == (("power_cap", "sw_thermal"), 0)
