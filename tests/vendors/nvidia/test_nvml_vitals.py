"""What the real pynvml reads of a device's health from a driver library that the tests built."""

from pathlib import Path

import pytest

from corral.clock import ManualClock, SystemClock
from corral.core.model.devices.device import Device, DeviceSample
from corral.core.model.devices.health import SignKind, Verdict
from corral.core.model.devices.vitals import ReadFailure, RecoveryAction, Vitals
from corral.core.ports.telemetry import CARELESS, Care
from corral.host.telemetry.signs.device_signs import signs_of
from corral.host.telemetry.signs.reading import NOTHING_BEFORE
from corral.host.telemetry.signs.sign_rules import LASTS_S
from corral.vendors.nvidia.nvml import NvmlSource, open_nvml
from corral.vendors.nvidia.nvml_vitals import VITALS_AGE_S
from tests.vendors.nvidia.nvml_stub import NvmlStub, build_stub, load_stub, stub_uuid


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def source(stubbed_nvml: NvmlStub, clock: ManualClock) -> NvmlSource:
    return NvmlSource(clock)


def vitals_of(source: NvmlSource, index: int = 0) -> Vitals:
    vitals = source.sample()[index].vitals
    assert vitals is not None
    return vitals


def test_a_healthy_device_has_no_sign_and_a_driver_without_an_action_names_none(
    source: NvmlSource, stubbed_nvml: NvmlStub
) -> None:
    vitals = vitals_of(source)
    assert (vitals.recovery, vitals.remap_pending, vitals.remap_failed, vitals.links_down) == (None, False, False, 0)
    assert (vitals.pcie_lanes, vitals.most_pcie_lanes) == (16, 16)
    assert signs_of(source.found().devices[0], source.sample()[0], NOTHING_BEFORE, max_temperature_c=95)[0] == ()


SIGNS = [
    ("temp 96", SignKind.TEMPERATURE, Verdict.SUSPECT),
    ("temp 101", SignKind.TEMPERATURE, Verdict.QUARANTINE),
    ("margin -8", SignKind.TEMPERATURE, Verdict.QUARANTINE),
    ("margin -2", SignKind.TEMPERATURE, Verdict.SUSPECT),
    ("ecc 1", SignKind.ECC_UNCORRECTABLE, Verdict.QUARANTINE),
    ("remap_pending 1", SignKind.REMAP_PENDING, Verdict.SUSPECT),
    ("remap_failed 1", SignKind.REMAP_FAILED, Verdict.QUARANTINE),
    ("recovery 1", SignKind.XID, Verdict.QUARANTINE),
    ("recovery 3", SignKind.XID, Verdict.SUSPECT),
    ("recovery 99", SignKind.XID, Verdict.QUARANTINE),
    ("lost 1", SignKind.LOST, Verdict.QUARANTINE),
    ("throttle 64", SignKind.THROTTLE, Verdict.SUSPECT),
    ("throttle 128", SignKind.POWER_BRAKE, Verdict.SUSPECT),
    ("lanes 8", SignKind.PCIE, Verdict.SUSPECT),
    ("generation 1", SignKind.PCIE, Verdict.SUSPECT),
    ("replays 1000", SignKind.PCIE, Verdict.TOLD),
    ("link_replays 1000", SignKind.NVLINK, Verdict.SUSPECT),
    ("link_recoveries 1", SignKind.NVLINK, Verdict.SUSPECT),
    ("link_down 3", SignKind.NVLINK, Verdict.SUSPECT),
    ("xid 79", SignKind.XID, Verdict.QUARANTINE),
    ("xid 31", SignKind.XID, Verdict.BLAMES_JOB),
]


@pytest.mark.parametrize("expected", SIGNS)
def test_the_driver_shows_each_sign_to_the_code_that_runs_on_a_real_gpu(
    source: NvmlSource, stubbed_nvml: NvmlStub, clock: ManualClock, expected: tuple[str, SignKind, Verdict]
) -> None:
    said, kind, verdict = expected
    newer = "gpu 0 margin 40" if "margin" in said else ""
    stubbed_nvml.say("gpu 0 util 90", newer)
    device, memory = source.found().devices[0], NOTHING_BEFORE
    _, memory = signs_of(device, source.sample()[0], memory, max_temperature_c=110)
    stubbed_nvml.say("gpu 0 util 90", f"gpu 0 {said}")
    found = set()
    for _ in range(2 + int(LASTS_S / VITALS_AGE_S)):
        clock.advance(VITALS_AGE_S)
        signs, memory = signs_of(device, source.sample([device.uuid])[0], memory, max_temperature_c=110)
        found |= {(sign.kind, sign.verdict) for sign in signs}
    assert found >= {(kind, verdict)}
    assert {one for one, _ in found} == {kind}


def test_vitals_are_read_seldom_and_at_once_after_an_error(
    source: NvmlSource, stubbed_nvml: NvmlStub, clock: ManualClock
) -> None:
    vitals_of(source)
    stubbed_nvml.say("gpu 0 remap_pending 1")
    clock.advance(1.0)
    assert vitals_of(source).remap_pending is False
    stubbed_nvml.say("gpu 0 remap_pending 1", "gpu 0 xid 63")
    assert vitals_of(source).remap_pending is True
    stubbed_nvml.say("gpu 0 xid 63")
    clock.advance(VITALS_AGE_S)
    assert vitals_of(source).remap_pending is False


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        ("nvmlDeviceGetFieldValues", {"recovery": None, "remap_failed": None, "pcie_replays": None}),
        ("nvmlDeviceGetTemperatureThreshold", {"below_slowdown_c": None, "below_shutdown_c": None}),
        ("nvmlDeviceGetMaxPcieLinkWidth", {"most_pcie_lanes": None}),
        ("nvmlDeviceGetCurrPcieLinkGeneration", {"pcie_generation": None}),
        ("nvmlDeviceGetNvLinkState", {"links_down": None}),
    ],
)
def test_what_a_driver_lacks_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str, expected: dict[str, object]
) -> None:
    stub = NvmlStub(build_stub(tmp_path, without=(without,)), tmp_path / "control")
    stub.say()
    load_stub(stub, monkeypatch)
    vitals = vitals_of(NvmlSource(ManualClock()))
    assert {name: getattr(vitals, name) for name in expected} == expected


def test_each_error_is_told_once_with_its_device(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    source.found()
    source.sample()
    stubbed_nvml.say("gpu 1 xid 13")
    assert [[error.code for error in sample.errors] for sample in source.sample()[:2]] == [[], [13]]
    assert [sample.errors for sample in source.sample()[:2]] == [(), ()]


def test_a_lost_device_and_a_driver_that_is_gone_are_told_apart(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    source.found()
    stubbed_nvml.say("gpu 0 lost 1")
    assert [sample.failure for sample in source.sample()[:2]] == [ReadFailure.LOST, None]
    stubbed_nvml.say("generation 1", "init 9")
    assert {sample.failure for sample in source.sample()} == {ReadFailure.DRIVER}


def test_nothing_is_asked_of_a_device_that_is_avoided(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    devices = {device.uuid: device for device in source.found().devices}
    stubbed_nvml.say("gpu 3 hang 1")
    sick: Device = devices[stub_uuid(3)]
    source.take_care(Care(avoided=(sick,)))
    others = [uuid for uuid in devices if uuid != sick.uuid]
    samples: dict[str, DeviceSample] = {sample.uuid: sample for sample in source.sample(others)}
    assert [sample.fault for sample in samples.values()] == [None] * 7
    assert source.found().devices[3] == sick
    stubbed_nvml.say()
    source.take_care(CARELESS)
    assert source.sample([sick.uuid])[0].fault is None


@pytest.mark.gpu
def test_a_real_gpu_tells_its_health() -> None:
    source = open_nvml(SystemClock())
    for device, sample in zip(source.found().devices, source.sample(), strict=True):
        vitals = sample.vitals
        assert vitals is not None
        assert vitals.pcie_lanes
        assert vitals.most_pcie_lanes
        assert vitals.below_slowdown_c is not None
        assert vitals.recovery in (None, RecoveryAction.NONE)
        signs, _ = signs_of(device, sample, NOTHING_BEFORE, max_temperature_c=95)
        assert not [sign for sign in signs if sign.verdict is Verdict.QUARANTINE]
    source.close()
