"""A slice is found by its profile, whichever way its user says it."""

import pytest

from corral.model.device import Device
from corral.model.fit import profile_matches
from corral.sharing.mig import free_partitions


@pytest.mark.parametrize(
    ("wanted", "profile", "answer"),
    [
        ("1g.10gb", "1g.10gb", True),
        ("1G.10GB", "1g.10gb", True),
        ("10g", "1g.10gb", True),
        ("10gb", "1g.10gb", True),
        ("10g", "10g", True),
        ("10g", "1g.10gb+me", True),
        ("1g.10gb", "1g.10gb+me", False),
        ("1g.5gb", "1g.10gb", False),
        ("0g", "1g.10gb", False),
        ("", "10g", False),
    ],
)
def test_a_profile_matches_by_name_or_by_memory(wanted: str, profile: str, answer: bool) -> None:
    assert profile_matches(wanted, profile) is answer


def test_held_slices_are_not_offered(sliced: Device) -> None:
    assert [p.uuid for p in free_partitions(sliced, "1g.10gb", ["MIG-1"])] == ["MIG-2"]
