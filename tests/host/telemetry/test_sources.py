"""The contract of every source: whatever the hardware behind it, these claims hold."""

from pathlib import Path

import pytest

from corral.core.model.devices.device import DeviceSample
from tests.host.telemetry.rigs import NOW, RETRY_S, Gpu, Rig, mock_rig, nvml_rig, smi_rig


@pytest.fixture(params=["mock", "nvml", "nvidia-smi"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    if request.param == "mock":
        return mock_rig(tmp_path / "mock.toml")
    if request.param == "nvml":
        return nvml_rig(request.getfixturevalue("stubbed_nvml"))
    return smi_rig(tmp_path)


def sample_of(rig: Rig, index: int) -> DeviceSample:
    return rig.source.sample([rig.source.node().devices[index].uuid])[0]


def test_the_inventory_lists_every_device_once_in_index_order(rig: Rig) -> None:
    devices = rig.source.node().devices
    assert [device.index for device in devices] == [0, 1, 2]
    assert len({device.uuid for device in devices}) == 3
    assert {device.memory_mib for device in devices} == {81920}


def test_the_node_has_a_name_cpu_and_memory(rig: Rig) -> None:
    node = rig.source.node()
    assert node.name
    assert node.cpu_milli >= 1000
    assert node.memory_mib > 0


def test_a_sample_of_nothing_in_particular_is_one_of_every_device(rig: Rig) -> None:
    uuids = [device.uuid for device in rig.source.node().devices]
    assert [sample.uuid for sample in rig.source.sample()] == uuids


def test_named_devices_are_sampled_in_the_order_they_were_named(rig: Rig) -> None:
    uuids = [device.uuid for device in reversed(rig.source.node().devices)]
    assert [sample.uuid for sample in rig.source.sample(uuids)] == uuids


def test_a_device_that_is_not_there_has_a_fault_and_no_readings(rig: Rig) -> None:
    rig.source.node()
    (sample,) = rig.source.sample(["no-such-device"])
    assert sample.fault
    assert sample.memory_free_mib is None
    assert sample.processes is None


def test_an_idle_device_reads_as_idle_at_the_time_of_the_clock(rig: Rig) -> None:
    sample = sample_of(rig, 0)
    assert sample.taken_at == NOW
    assert sample.fault is None
    assert sample.utilization_pct == 0
    assert sample.processes == ()
    assert sample.memory_used_mib == 0
    assert sample.power_mw == 60_000


def test_a_busy_device_shows_its_load_and_its_processes(rig: Rig) -> None:
    rig.source.node()
    rig.gpus[1] = Gpu(utilization_pct=87, used_mib=3000, processes=((4242, 1000), (4243, 2000)))
    rig.apply()
    sample = sample_of(rig, 1)
    assert sample.utilization_pct == 87
    assert sample.memory_used_mib == 3000
    assert sample.memory_free_mib is not None
    assert sample.memory_total_mib is not None
    assert sample.memory_free_mib <= sample.memory_total_mib - 3000
    assert sample.processes is not None
    assert [(process.pid, process.memory_mib) for process in sample.processes] == [(4242, 1000), (4243, 2000)]


def test_a_reading_that_cannot_be_had_is_none_and_takes_no_other_with_it(rig: Rig) -> None:
    rig.source.node()
    rig.gpus[2] = Gpu(power_w=None)
    rig.apply()
    sample = sample_of(rig, 2)
    assert sample.power_mw is None
    assert sample.fault is None
    assert sample.utilization_pct == 0


def test_a_lost_device_has_a_fault_and_the_others_are_read(rig: Rig) -> None:
    rig.source.node()
    rig.gpus[1].lost = True
    rig.apply()
    faults = [sample.fault for sample in rig.source.sample()]
    assert faults[0] is None
    assert faults[1] is not None
    assert faults[2] is None


def test_a_lost_device_stays_in_the_inventory_under_its_index(rig: Rig) -> None:
    before = [(device.uuid, device.index) for device in rig.source.node().devices]
    rig.gpus[1].lost = True
    rig.apply()
    rig.source.sample()
    rig.clock.advance(RETRY_S)
    rig.source.sample()
    assert [(device.uuid, device.index) for device in rig.source.node().devices] == before


def test_a_device_that_comes_back_is_read_again(rig: Rig) -> None:
    rig.source.node()
    rig.gpus[1].lost = True
    rig.apply()
    rig.source.sample()
    rig.gpus[1].lost = False
    rig.apply()
    rig.clock.advance(RETRY_S)
    rig.source.sample()
    assert sample_of(rig, 1).fault is None


def test_an_inventory_that_did_not_change_is_equal_to_the_one_before(rig: Rig) -> None:
    before = rig.source.node()
    rig.clock.advance(RETRY_S)
    assert rig.source.node() == before


def test_closing_twice_does_no_harm(rig: Rig) -> None:
    rig.source.node()
    rig.source.close()
    rig.source.close()
