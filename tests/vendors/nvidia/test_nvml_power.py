"""The power limits of NVIDIA's devices, by the real pynvml on a driver library that the tests built."""

import os
from contextlib import suppress

import pynvml
import pytest

from corral.clock import ManualClock
from corral.core.model.errors import BackendFailed
from corral.vendors.nvidia import NVIDIA
from corral.vendors.nvidia.nvml import NvmlSource, open_nvml
from corral.vendors.nvidia.nvml_power import NvmlPower
from tests.vendors.nvidia.nvml_stub import NvmlStub, stub_uuid

THIRD = stub_uuid(3)


@pytest.mark.usefixtures("stubbed_nvml")
def test_the_inventory_has_the_limit_and_the_range_of_limits() -> None:
    device = NvmlSource(ManualClock()).found().devices[3]
    assert (device.power_limit_mw, device.power_range_mw) == (400_000, (100_000, 400_000))


def test_a_device_without_a_range_takes_no_limit(stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("gpu 3 fixed 1")
    devices = NvmlSource(ManualClock()).found().devices
    assert devices[3].settable_power_mw is None
    assert devices[2].settable_power_mw == (100_000, 400_000)


@pytest.mark.usefixtures("stubbed_nvml")
def test_a_limit_is_set_and_seen_by_the_reader_whose_session_goes_on() -> None:
    clock = ManualClock()
    source, power = NvmlSource(clock), NVIDIA.power()
    power.set_limit_mw(THIRD, 300_000)
    assert power.limit_mw(THIRD) == 300_000
    assert source.sample([THIRD])[0].fault is None
    clock.advance(61.0)
    assert source.found().devices[3].power_limit_mw == 300_000
    power.set_limit_mw(THIRD, 400_000)
    assert power.limit_mw(THIRD) == 400_000


def test_a_refusal_is_told_in_the_drivers_words_and_changes_nothing(stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say(f"gpu 3 refuses {pynvml.NVML_ERROR_NO_PERMISSION}")
    power = NvmlPower()
    with pytest.raises(BackendFailed, match=f"refuses a power limit of 300 W for {THIRD}: Insufficient Permissions"):
        power.set_limit_mw(THIRD, 300_000)
    assert power.limit_mw(THIRD) == 400_000


@pytest.mark.usefixtures("stubbed_nvml")
def test_a_limit_out_of_range_is_refused_by_the_driver() -> None:
    with pytest.raises(BackendFailed, match="Invalid Argument"):
        NvmlPower().set_limit_mw(THIRD, 50_000)


def test_a_lost_or_unknown_device_and_a_driver_that_is_not_there_are_told(stubbed_nvml: NvmlStub) -> None:
    power = NvmlPower()
    with pytest.raises(BackendFailed, match="does not show GPU-none"):
        power.limit_mw("GPU-none")
    stubbed_nvml.say("gpu 3 lost 1")
    with pytest.raises(BackendFailed, match="GPU is lost"):
        power.limit_mw(THIRD)
    stubbed_nvml.say(f"init {pynvml.NVML_ERROR_DRIVER_NOT_LOADED}")
    with pytest.raises(BackendFailed, match="the NVIDIA driver does not answer"):
        power.limit_mw(THIRD)


@pytest.mark.gpu
def test_a_real_device_has_a_limit_within_its_range_and_takes_it_from_root_alone() -> None:
    """The limit that is set is the one that holds already: nothing of the machine changes."""
    source, power = open_nvml(ManualClock()), NvmlPower()
    device = source.found().devices[0]
    assert device.power_range_mw is not None
    assert device.power_limit_mw is not None
    least_mw, most_mw = device.power_range_mw
    limit_mw = power.limit_mw(device.uuid)
    assert 0 < least_mw <= limit_mw <= most_mw
    if os.geteuid() == 0:
        with suppress(BackendFailed):  # root of a container may lack the right to administer the device
            power.set_limit_mw(device.uuid, limit_mw)
    assert power.limit_mw(device.uuid) == limit_mw
    assert source.sample([device.uuid])[0].fault is None
    source.close()
