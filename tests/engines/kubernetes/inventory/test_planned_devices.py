"""The annotation that names a pod's devices is read as it was written, and nonsense is no plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.means import Means
from corral.engines.kubernetes.inventory.planned_devices import PlannedDevice, planned, written

DEVICES = st.builds(
    PlannedDevice,
    st.from_regex(r"[A-Za-z0-9._-]{1,63}", fullmatch=True),
    st.integers(1, 1000),
    st.none() | st.integers(1, 999_999_999),
    st.sampled_from(Means),
)


@given(st.lists(DEVICES, max_size=8))
def test_a_plan_is_read_as_it_was_written(devices: list[PlannedDevice]) -> None:
    assert planned(written(devices)) == tuple(devices)


@pytest.mark.parametrize(
    "text",
    ["GPU-a", "GPU-a:0::mps", "GPU-a:1001::mps", "GPU-a:10:x:mps", "GPU-a:10::none", "GPU-a:10::mps,", "a:٣::mps"],
)
def test_nonsense_is_no_plan(text: str) -> None:
    assert planned(text) is None


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    planned(text)
