"""The power limits of AMD's devices, by the real package amdsmi on a driver library that the tests built."""

import pytest

from corral.clock import ManualClock
from corral.core.model.errors import BackendFailed
from corral.vendors.amd import AMD
from corral.vendors.amd.smi import open_amdsmi
from tests.vendors.amd.amdsmi_stub import AmdSmiStub, stub_uuid

NO_PERMISSION = 10


@pytest.mark.usefixtures("amdsmi_stub")
def test_a_limit_is_set_and_seen_by_the_reader_whose_session_goes_on() -> None:
    clock = ManualClock()
    source, power = open_amdsmi(clock), AMD.power()
    device = source.found().devices[1]
    assert (device.power_limit_mw, device.power_range_mw) == (750_000, (200_000, 750_000))
    assert power.limit_mw(device.uuid) == 750_000
    power.set_limit_mw(device.uuid, 500_000)
    assert power.limit_mw(device.uuid) == 500_000
    assert source.sample([device.uuid])[0].fault is None
    clock.advance(61.0)
    assert source.found().devices[1].power_limit_mw == 500_000
    power.set_limit_mw(device.uuid, 750_000)
    source.close()


def test_a_device_without_a_range_takes_no_limit(amdsmi_stub: AmdSmiStub) -> None:
    amdsmi_stub.say("gpu 0 fixed 1")
    source = open_amdsmi(ManualClock())
    assert [one.settable_power_mw for one in source.found().devices] == [None, (200_000, 750_000)]
    source.close()


def test_a_refusal_is_told_in_the_drivers_words_and_changes_nothing(amdsmi_stub: AmdSmiStub) -> None:
    amdsmi_stub.say(f"gpu 0 refuses {NO_PERMISSION}")
    power = AMD.power()
    with pytest.raises(BackendFailed, match=f"refuses a power limit of 300 W for {stub_uuid(0)}: .* Permission Denied"):
        power.set_limit_mw(stub_uuid(0), 300_000)
    assert power.limit_mw(stub_uuid(0)) == 750_000


@pytest.mark.usefixtures("amdsmi_stub")
def test_an_unknown_device_is_told() -> None:
    with pytest.raises(BackendFailed, match="does not show GPU-none"):
        AMD.power().limit_mw("GPU-none")
