"""What the real amdsmi reads of a device's health from a library that stands in for the driver's."""

import pytest

from corral.clock import ManualClock
from corral.core.model.devices.health import SignKind, Verdict
from corral.host.telemetry.signs.device_signs import signs_of
from corral.host.telemetry.signs.reading import NOTHING_BEFORE
from corral.host.telemetry.signs.sign_rules import LASTS_S
from corral.vendors.amd.smi import open_amdsmi
from corral.vendors.amd.smi_vitals import VITALS_AGE_S
from tests.vendors.amd.amdsmi_stub import AmdSmiStub

SIGNS = [
    ("temp 100", SignKind.TEMPERATURE, Verdict.SUSPECT),
    ("temp 106", SignKind.TEMPERATURE, Verdict.QUARANTINE),
    ("ecc 1", SignKind.ECC_UNCORRECTABLE, Verdict.QUARANTINE),
    ("pending 1", SignKind.REMAP_PENDING, Verdict.SUSPECT),
    ("unreservable 1", SignKind.REMAP_FAILED, Verdict.QUARANTINE),
    ("lanes 8", SignKind.PCIE, Verdict.SUSPECT),
    ("replays 1000", SignKind.PCIE, Verdict.TOLD),
    ("xgmi 1", SignKind.NVLINK, Verdict.SUSPECT),
    ("lost 1", SignKind.LOST, Verdict.QUARANTINE),
]


@pytest.mark.parametrize("expected", [*SIGNS, ("reserved 7", None, None)])
def test_the_driver_shows_each_sign_to_the_code_that_runs_on_a_real_gpu(
    amdsmi_stub: AmdSmiStub, expected: tuple[str, SignKind | None, Verdict | None]
) -> None:
    said, kind, verdict = expected
    clock = ManualClock(1000.0)
    amdsmi_stub.say("gpu 0 util 90")
    source, memory = open_amdsmi(clock), NOTHING_BEFORE
    device = source.found().devices[0]
    found = set()
    _, memory = signs_of(device, source.sample([device.uuid])[0], memory, max_temperature_c=110)
    amdsmi_stub.say("gpu 0 util 90", f"gpu 0 {said}")
    for _ in range(1 + int(LASTS_S / VITALS_AGE_S)):
        clock.advance(VITALS_AGE_S)
        signs, memory = signs_of(device, source.sample([device.uuid])[0], memory, max_temperature_c=110)
        found |= {(sign.kind, sign.verdict) for sign in signs}
    assert found == (set() if kind is None else {(kind, verdict)})
