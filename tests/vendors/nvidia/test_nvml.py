"""The NVML source on a driver library that the tests built: the real pynvml, no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from corral.clock import Clock, ManualClock, SystemClock
from corral.core.model.devices.device import Link, Partition, throttle_reasons
from corral.core.model.errors import BackendFailed
from corral.vendors.nvidia.nvml import NvmlSource, open_nvml
from tests.vendors.nvidia.nvml_stub import NvmlStub, build_stub, load_stub, stub_uuid


@pytest.fixture
def source(stubbed_nvml: NvmlStub) -> NvmlSource:
    return NvmlSource(ManualClock())


def test_the_inventory_holds_all_that_the_driver_tells(source: NvmlSource) -> None:
    node = source.found()
    device = node.devices[3]
    assert (node.driver_version, node.cuda_version) == ("550.54.15", (12, 4))
    assert device.uuid == stub_uuid(3)
    assert device.model == "NVIDIA A100-SXM4-80GB"
    assert device.compute_capability == (8, 0)
    assert device.pci_bus_id == "00000000:13:00.0"
    assert device.power_limit_mw == 400_000
    assert (device.persistence, device.ecc, device.mig_enabled) == (True, True, False)


def test_direct_nvlinks_are_counted_for_each_peer(source: NvmlSource) -> None:
    links = {link.peer_uuid: link for link in source.found().devices[0].links}
    assert links[stub_uuid(1)] == Link(stub_uuid(1), "nvlink", 2)
    assert links[stub_uuid(7)].kind == "system"


def test_gpus_behind_a_switch_are_all_linked(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("nvswitch 1")
    for device in source.found().devices:
        assert [(link.kind, link.lanes) for link in device.links] == [("nvlink", 12)] * 7


def test_mig_instances_are_partitions_and_utilisation_is_not_to_be_had(
    source: NvmlSource, stubbed_nvml: NvmlStub
) -> None:
    stubbed_nvml.say("gpu 2 mig 1")
    device = source.found().devices[2]
    assert device.mig_enabled
    assert device.partitions[0] == Partition("MIG-57ab0000-0000-4000-8000-000000000021", "3g.40gb", 40960)
    assert len(device.partitions) == 2
    assert source.sample([device.uuid])[0].utilization_pct is None


def test_memory_that_the_driver_reserves_is_neither_used_nor_free(source: NvmlSource) -> None:
    sample = source.sample()[0]
    assert (sample.memory_total_mib, sample.memory_used_mib, sample.memory_free_mib) == (81920, 0, 81320)


def test_memory_errors_beyond_correction_are_counted(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    source.found()
    stubbed_nvml.say("gpu 0 ecc 2")
    assert [sample.ecc_errors for sample in source.sample()[:2]] == [2, 0]


def test_a_process_whose_memory_is_not_told_is_listed_without_it(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    source.found()
    stubbed_nvml.say("gpu 0 process 77 -1")
    processes = source.sample()[0].processes
    assert processes is not None
    assert [(process.pid, process.memory_mib) for process in processes] == [(77, None)]


def test_how_much_each_process_used_a_gpu_lately_is_told(stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say(
        *("gpu 0 process 77 100", "gpu 0 process 78 100", "gpu 0 process 79 100", "gpu 0 process 80 100"),
        *("gpu 0 uses 77 40", "gpu 0 used_before 77 90", "gpu 0 used_before 78 90", "gpu 0 uses 80 1000"),
    )
    assert used_pct(SystemClock()) == {77: 40, 78: 0, 79: 0, 80: None}


def test_processes_that_have_not_used_a_gpu_lately_have_not_used_it(stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("gpu 0 process 77 100")
    assert used_pct(SystemClock()) == {77: 0}


def test_of_a_device_in_slices_the_driver_does_not_say_which_process_uses_it(stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("gpu 0 mig 1", "gpu 0 process 77 100", "gpu 0 uses 77 40")
    assert used_pct(SystemClock()) == {77: None}


def used_pct(clock: Clock) -> dict[int, int | None]:
    """How much each process uses GPU 0."""
    processes = NvmlSource(clock).sample()[0].processes
    assert processes is not None
    return {process.pid: process.utilization_pct for process in processes}


@pytest.mark.parametrize(
    ("function", "reading", "expected"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", "memory_used_mib", 600),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "processes", ()),
        ("nvmlDeviceGetUtilizationRates", "utilization_pct", None),
        ("nvmlDeviceGetPowerUsage", "power_mw", None),
        ("nvmlDeviceGetTotalEccErrors", "ecc_errors", None),
        ("nvmlDeviceGetUtilizationRates", "memory_bandwidth_pct", None),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz", None),
        ("nvmlDeviceGetCurrentClocksEventReasons", "throttle", 0),
        ("nvmlEventSetCreate", "xid", None),
        ("nvmlDeviceRegisterEvents", "xid", None),
    ],
)
def test_a_function_that_the_driver_lacks_is_replaced_or_its_reading_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, reading: str, expected: object
) -> None:
    stub = NvmlStub(build_stub(tmp_path, without=(function,)), tmp_path / "control")
    stub.say()
    load_stub(stub, monkeypatch)
    sample = NvmlSource(ManualClock()).sample()[0]
    assert getattr(sample, reading) == expected
    assert sample.temperature_c == 30


def test_a_driver_that_does_not_know_what_processes_do_still_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = NvmlStub(build_stub(tmp_path, without=("nvmlDeviceGetProcessUtilization",)), tmp_path / "control")
    stub.say("gpu 0 process 77 100", "gpu 0 uses 77 40")
    load_stub(stub, monkeypatch)
    assert used_pct(SystemClock()) == {77: None}


def test_a_driver_without_any_of_the_newer_functions_still_lists_its_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = (
        "nvmlDeviceGetMigMode", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetTopologyCommonAncestor",
        "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetEccMode", "nvmlSystemGetCudaDriverVersion_v2",
    )  # fmt: skip
    stub = NvmlStub(build_stub(tmp_path, without=newer), tmp_path / "control")
    stub.say()
    load_stub(stub, monkeypatch)
    node = NvmlSource(ManualClock()).found()
    device = node.devices[0]
    assert node.cuda_version is None
    assert (device.mig_enabled, device.links, device.power_limit_mw, device.ecc) == (None, (), None, None)


def test_a_driver_reload_costs_no_sample(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    source.found()
    stubbed_nvml.say("generation 1")
    assert [sample.fault for sample in source.sample()] == [None] * 8


def test_while_the_driver_is_unloaded_every_device_says_so_and_recovers_with_it(
    source: NvmlSource, stubbed_nvml: NvmlStub
) -> None:
    source.found()
    stubbed_nvml.say("generation 1", f"init {pynvml.NVML_ERROR_DRIVER_NOT_LOADED}")
    assert {sample.fault for sample in source.sample()} == {"the NVIDIA driver is not loaded"}
    with pytest.raises(BackendFailed, match="not loaded"):
        source.found()
    stubbed_nvml.say("generation 1")
    assert {sample.fault for sample in source.sample()} == {None}


def test_a_driver_upgraded_under_the_server_says_what_to_do(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    source.found()
    stubbed_nvml.say("generation 1", f"init {pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}")
    assert "restart" in str(source.sample()[0].fault)


def test_a_gpu_that_is_lost_from_the_start_is_left_out(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("gpu 5 lost 1")
    assert [device.index for device in source.found().devices] == [0, 1, 2, 3, 4, 6, 7]


def test_a_gpu_that_shows_up_under_the_index_of_a_lost_one_moves_the_lost_one(
    source: NvmlSource, stubbed_nvml: NvmlStub
) -> None:
    stubbed_nvml.say("devices 2")
    source.found()
    stubbed_nvml.say("devices 1", "generation 1")
    source.sample()
    assert [(device.uuid, device.index) for device in source.found().devices] == [(stub_uuid(0), 0), (stub_uuid(1), 1)]


def test_a_driver_without_gpus_is_no_source(stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("devices 0")
    with pytest.raises(BackendFailed, match="no GPU"):
        open_nvml(ManualClock())


def test_a_fresh_process_finds_the_library_by_its_name(nvml_stub: NvmlStub) -> None:
    script = (
        "from corral.clock import SystemClock; from corral.vendors.nvidia.nvml import open_nvml; "
        "source = open_nvml(SystemClock()); print(len(source.found().devices), source.sample()[0].power_mw)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | nvml_stub.env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "8 60000\n", "")


@pytest.mark.gpu
def test_a_real_gpu_is_inventoried_and_read() -> None:
    source = open_nvml(SystemClock())
    node = source.found()
    assert node.driver_version is not None
    for device, sample in zip(node.devices, source.sample(), strict=True):
        assert device.memory_mib
        assert device.pci_bus_id
        assert device.compute_capability is not None
        assert sample.fault is None
        assert sample.memory_used_mib is not None
        assert sample.processes is not None
    source.close()


def test_a_device_that_cannot_be_opened_is_told_once_however_often_it_is_tried(
    stubbed_nvml: NvmlStub, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(1.0)
    source = NvmlSource(clock)
    source.found()
    stubbed_nvml.say("devices 2", "gpu 1 lost 1")
    for _ in range(5):
        source.sample()
        clock.advance(61.0)
    (told,) = source.unopened
    assert told.startswith("GPU 1 cannot be opened: ")
    assert [record.getMessage() for record in caplog.records].count(told) == 1
    stubbed_nvml.say("devices 2")
    source.sample()
    assert source.unopened == ()


def test_clocks_bandwidth_and_throttling_are_read(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("gpu 0 util 80", "gpu 0 sm 900", "gpu 0 mem 1215", "gpu 0 throttle 64", "gpu 1 sm -1")
    first, second = source.sample()[:2]
    assert (first.memory_bandwidth_pct, first.sm_clock_mhz, first.mem_clock_mhz) == (40, 900, 1215)
    assert throttle_reasons(first.throttle or 0) == ("hw_thermal",)
    assert (second.sm_clock_mhz, second.throttle) == (None, 0)


def test_a_clock_that_rests_or_was_set_is_not_throttled() -> None:
    assert throttle_reasons(0x1 | 0x2 | 0x10 | 0x100) == ()
    assert throttle_reasons(0x4 | 0x80) == ("power_cap", "power_brake")


def test_the_last_xid_is_told_of_its_device_alone_and_kept_over_a_reload(
    source: NvmlSource, stubbed_nvml: NvmlStub
) -> None:
    assert [sample.xid for sample in source.sample()[:2]] == [0, 0]
    stubbed_nvml.say("gpu 1 xid 79")
    assert [sample.xid for sample in source.sample()[:2]] == [0, 79]
    stubbed_nvml.say("gpu 1 xid 79", "generation 1")
    assert [sample.xid for sample in source.sample()[:2]] == [0, 79]


def test_a_device_that_tells_no_events_has_no_xid(source: NvmlSource, stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("gpu 0 events 0")
    assert [sample.xid for sample in source.sample()[:2]] == [None, 0]
