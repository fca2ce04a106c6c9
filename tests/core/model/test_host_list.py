import pytest

from corral.core.model.devices.host_list import MOST_HOSTS, expand_hosts
from corral.core.model.errors import Refused


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-01", ["gpu-01"]),
        ("b,a, b", ["b", "a"]),
        ("gpu-[01-03,07],login", ["gpu-01", "gpu-02", "gpu-03", "gpu-07", "login"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("r[1-2]n[1,3].lab", ["r1n1.lab", "r1n3.lab", "r2n1.lab", "r2n3.lab"]),
    ],
)
def test_a_list_of_nodes_is_expanded_in_its_order_each_once(text: str, names: list[str]) -> None:
    assert list(expand_hosts(text)) == names


@pytest.mark.parametrize("text", ["", "a,,b", "gpu-[3-1]", "gpu-[a-c]", "gpu-[1", "gpu-1]", "gpu-[]", "[[1]]"])
def test_what_is_no_list_of_nodes_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(Refused, match=r"^--node: .* write (names with commas|one such as \[01-03,07\])"):
        expand_hosts(text, field="--node")


@pytest.mark.parametrize("text", ["n[0-999999999]", "[0-99][0-99][0-99][0-99][0-99]"])
def test_a_list_that_comes_to_far_too_many_is_refused_at_once(text: str) -> None:
    with pytest.raises(Refused, match=f"names more than {MOST_HOSTS} nodes"):
        expand_hosts(text)
