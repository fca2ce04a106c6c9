from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from corral.cli.tables.gauges import bars_line, layout_for
from corral.client import DeviceRow, HolderRow

BUSY = DeviceRow(
    "GPU-1", 3, "NVIDIA H100 80GB HBM3", "allocated", 81920, 40960, 40960, 63, 71, 412.4,
    holders=(HolderRow("17", "alice"),), power_limit_w=700.0,
)  # fmt: skip
UNKNOWN = DeviceRow("GPU-2", None, "NVIDIA A100", "unreadable")

MEMORY = st.none() | st.integers(0, 10**6)
WATTS = st.none() | st.floats(0, 5000)
READINGS = st.builds(
    DeviceRow, st.just("GPU-1"), st.none() | st.integers(0, 99), st.text(max_size=30),
    st.sampled_from(["free", "stale"]), MEMORY, MEMORY, MEMORY, MEMORY, MEMORY, WATTS, power_limit_w=WATTS,
)  # fmt: skip


def test_a_wide_line_has_power_and_who_has_the_gpu() -> None:
    line = bars_line(BUSY, "alice/17", layout_for(100, [BUSY]), "cyan")
    for part in ("[3]", "H100 80GB HBM3", "71'C", "412/700W", "63%", "40/80G", "allocated alice/17"):
        assert part in line


def test_what_is_not_known_is_no_zero() -> None:
    line = bars_line(UNKNOWN, "", layout_for(80, [UNKNOWN]), "red")
    assert "?%" in line
    assert "?/?G" in line
    assert "0" not in line.replace("A100", "")


@given(st.integers(40, 250), st.lists(READINGS, min_size=1, max_size=4))
def test_no_line_is_wider_than_the_terminal(columns: int, devices: list[DeviceRow]) -> None:
    layout = layout_for(columns, devices)
    for device in devices:
        line = bars_line(device, "somebody/1 somebody-else/2", layout, "cyan")
        assert len(line) <= columns, line


def test_the_model_is_left_out_where_there_is_no_room_for_it() -> None:
    devices = [replace(BUSY, index=i) for i in range(2)]
    assert layout_for(48, devices).model == 0
    assert layout_for(110, devices).model == len("H100 80GB HBM3")
