"""When a device that answers is sick all the same."""

from corral.core.model.devices.device import DeviceSample
from corral.host.telemetry.device_condition import COOL_DOWN_C, illness


def sample(temperature_c: int | None = 40, ecc_errors: int | None = 0) -> DeviceSample:
    return DeviceSample("GPU-a", 0.0, temperature_c=temperature_c, ecc_errors=ecc_errors)


def test_a_cool_device_without_errors_is_well() -> None:
    assert illness(sample(), 90, ill_before=False) is None


def test_a_device_is_sick_above_the_limit_and_not_at_it() -> None:
    assert illness(sample(90), 90, ill_before=False) is None
    assert "91°C" in str(illness(sample(91), 90, ill_before=False))


def test_a_device_that_was_too_hot_must_cool_down_before_it_is_well() -> None:
    assert illness(sample(90), 90, ill_before=True) is not None
    assert illness(sample(90 - COOL_DOWN_C), 90, ill_before=True) is None


def test_memory_errors_beyond_correction_name_the_way_out() -> None:
    assert "nvidia-smi --gpu-reset -i GPU-a" in str(illness(sample(ecc_errors=1), 90, ill_before=False))


def test_what_cannot_be_read_is_no_illness() -> None:
    assert illness(sample(None, None), 90, ill_before=False) is None
