"""What amdsmi tells of AMD's devices, read from a library that stands in for the driver's."""

from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.model.devices.device import DeviceProcess, Link
from corral.core.model.errors import BackendFailed
from corral.host.telemetry.discover import AnyDriver
from corral.vendors.amd import AMD
from corral.vendors.amd.smi import AmdSmiSource, load_amdsmi, open_amdsmi
from corral.vendors.nvidia import NVIDIA
from corral.vendors.vendor import DriverLibrary, NotHere
from tests.vendors.amd.amdsmi_stub import AmdSmiStub, stub_uuid


def source_of(clock: ManualClock | None = None) -> AmdSmiSource:
    return open_amdsmi(clock or ManualClock())


@pytest.mark.usefixtures("amdsmi_stub")
def test_the_inventory_holds_what_the_driver_tells() -> None:
    found = source_of().found()
    assert (found.driver_version, found.cuda_version) == ("6.10.5", None)
    first, second = found.devices
    assert (first.uuid, first.index, first.model) == (stub_uuid(0), 0, "AMD Instinct MI300X")
    assert (first.memory_mib, first.power_limit_mw, first.compute_capability) == (196608, 750_000, None)
    assert (first.pci_bus_id, first.mig_enabled, first.partitions) == ("0000:10:00.0", False, ())
    assert first.files == ("/dev/dri/renderD128",)
    assert first.links == (Link(second.uuid, "xgmi"),)


def test_a_sample_has_the_readings_and_the_processes(amdsmi_stub: AmdSmiStub) -> None:
    amdsmi_stub.say("gpu 1 util 83", "gpu 1 used 5000", "gpu 1 temp 61", "gpu 1 power 410", "gpu 1 process 42 4096")
    source = source_of()
    sample = source.sample([stub_uuid(1)])[0]
    assert (sample.utilization_pct, sample.memory_bandwidth_pct, sample.temperature_c) == (83, 41, 61)
    assert (sample.memory_used_mib, sample.memory_free_mib, sample.memory_total_mib) == (5000, 191608, 196608)
    assert (sample.power_mw, sample.sm_clock_mhz, sample.mem_clock_mhz) == (410_000, 2100, 1300)
    assert (sample.processes, sample.ecc_errors, sample.xid) == ((DeviceProcess(42, 4096),), 0, None)
    assert source.sample([stub_uuid(0)])[0].processes == ()


def test_a_reading_that_a_device_does_not_give_is_none(amdsmi_stub: AmdSmiStub) -> None:
    amdsmi_stub.say("gpu 0 power -1")
    assert source_of().sample([stub_uuid(0)])[0].power_mw is None


def test_a_lost_device_has_a_fault_and_stays_in_the_inventory(amdsmi_stub: AmdSmiStub) -> None:
    clock = ManualClock()
    source = source_of(clock)
    amdsmi_stub.say("gpu 1 lost 1")
    well, lost = source.sample()
    assert (well.fault, lost.fault) == (None, "the GPU is lost: it has stopped answering the driver")
    clock.advance(61.0)
    assert [device.uuid for device in source.found().devices] == [stub_uuid(0), stub_uuid(1)]
    assert "does not show this GPU" in str(source.sample([stub_uuid(1)])[0].fault)
    amdsmi_stub.say()
    clock.advance(61.0)
    source.found()
    assert source.sample([stub_uuid(1)])[0].fault is None


def test_a_driver_that_goes_away_is_a_fault_of_each_device_until_it_is_back(amdsmi_stub: AmdSmiStub) -> None:
    clock = ManualClock()
    source = source_of(clock)
    amdsmi_stub.say("init 34")
    clock.advance(61.0)
    assert {sample.fault for sample in source.sample()} == {"the AMD driver is not loaded"}
    amdsmi_stub.say()
    assert {sample.fault for sample in source.sample()} == {None}


def test_partitions_are_slices_of_their_device_each_with_its_part_of_the_memory(amdsmi_stub: AmdSmiStub) -> None:
    amdsmi_stub.say("devices 1", "partitions 8 CPX", "gpu 3 used 100", "gpu 3 process 7 90")
    source = source_of()
    (device,) = source.found().devices
    assert (device.uuid, device.mig_enabled, device.memory_mib) == ("AMD-0x00000000005E0000", True, 196608)
    assert [part.uuid for part in device.partitions] == [stub_uuid(index) for index in range(8)]
    assert {(part.profile, part.memory_mib) for part in device.partitions} == {("cpx", 24576)}
    assert [part.files for part in device.partitions[:2]] == [("/dev/dri/renderD128",), ("/dev/dri/renderD129",)]
    assert AMD.slice_milli("cpx", 24576, device) == 125
    whole, *parts = source.sample()
    assert (whole.uuid, whole.memory_used_mib, whole.processes) == (device.uuid, 100, (DeviceProcess(7, 90),))
    assert [part.memory_used_mib for part in parts] == [0, 0, 0, 100, 0, 0, 0, 0]


def test_partitions_that_the_driver_does_not_tell_apart_are_given_to_nobody(amdsmi_stub: AmdSmiStub) -> None:
    amdsmi_stub.say("devices 1", "partitions 4 QPX", "same_uuid 1")
    (device,) = source_of().found().devices
    assert (device.mig_enabled, device.partitions) == (True, ())


def test_a_host_without_the_kernel_driver_has_nothing_to_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("corral.vendors.amd.smi.KERNEL_DRIVER", str(tmp_path / "none"))
    with pytest.raises(NotHere):
        source_of()


def test_what_is_missing_is_said_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("corral.vendors.amd.smi._places", lambda: (str(tmp_path / "libamd_smi.so"),))
    with pytest.raises(BackendFailed, match=r"libamd_smi.so, a part of ROCm, is not installed \(package amd-smi-lib\)"):
        load_amdsmi()
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("amdsmi_stub")
def test_a_host_with_gpus_of_two_makers_has_all_of_them_with_numbers_of_their_own() -> None:
    class Nvidia(AmdSmiSource):
        """Two devices more, which say that they are of another driver."""

        name = "nvml"

    clock = ManualClock()
    nvidia = replace(NVIDIA, libraries=(DriverLibrary("NVML", lambda *_: Nvidia(clock, load_amdsmi())),))
    source = AnyDriver(clock, makers={"nvidia": nvidia, "amd": AMD})
    devices = source.node().devices
    assert [(device.vendor, device.index) for device in devices] == [
        ("nvidia", 0),
        ("nvidia", 1),
        ("amd", 2),
        ("amd", 3),
    ]
    assert source.name == "nvml and amdsmi"
    assert len(source.sample()) == 4
