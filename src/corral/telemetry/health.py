"""Whether a device that answers is well enough to be handed out."""

from corral.model.device import DeviceSample

COOL_DOWN_C = 5
"""A device that was too hot is well again when it is so far below the limit, not when it touches it."""


def illness(sample: DeviceSample, max_temperature_c: int, *, ill_before: bool) -> str | None:
    """Why the device is taken for sick, None when it is well. What could not be read is no illness."""
    if sample.ecc_errors:
        return (
            f"{sample.ecc_errors} memory errors beyond correction since the driver was loaded; "
            f"reset it: nvidia-smi --gpu-reset -i {sample.uuid}"
        )
    limit_c = max_temperature_c - (COOL_DOWN_C if ill_before else 0)
    if sample.temperature_c is not None and sample.temperature_c > limit_c:
        return f"it is at {sample.temperature_c}°C, and {limit_c}°C is the most allowed"
    return None
