"""What MIG slices count as."""

import pytest

from corral.core.model.devices.device import Device
from corral.vendors.nvidia.mig_profiles import slice_milli


@pytest.mark.parametrize(
    ("profile", "slice_gib", "device_gib", "milli"),
    [
        ("1g.10gb", 9.5, 80, 142),
        ("1g.20gb", 19.5, 80, 250),
        ("2g.20gb", 19.5, 80, 285),
        ("3g.40gb", 39.5, 80, 500),
        ("7g.80gb", 79, 80, 1000),
        ("1g.6gb", 5.8, 24, 250),
        ("4g.24gb", 23.6, 24, 1000),
        ("10g", 9.5, 80, 125),
        ("odd", None, None, 1000),
    ],
)
def test_a_slice_counts_as_its_part_of_the_device(
    profile: str, slice_gib: float | None, device_gib: int | None, milli: int
) -> None:
    device = Device("GPU-a", 0, "NVIDIA A100", None if device_gib is None else device_gib * 1024)
    slice_mib = None if slice_gib is None else int(slice_gib * 1024)
    assert slice_milli(profile, slice_mib, device) == milli


def test_seven_of_the_smallest_slices_are_no_more_than_their_device() -> None:
    assert 7 * slice_milli("1g.10gb", 9728, Device("GPU-a", 0, "NVIDIA A100", 81920)) <= 1000
