"""Sharing a device as a user meets it: asking for parts, seeing them in the map, and being told what makes no sense."""

from collections.abc import Iterator

import pytest

from tests.e2e.box import Box

FIRST, SECOND = (f"c59395cd-ac91-4cd3-a1b0-3d2568aa2d0{n}" for n in (1, 2))
TWO_DEVICES = f"""slot_name = "cuda"
device_plugin_name = "CUDADevice"
devices = [
{{ mother_uuid = "{FIRST}", model_name = "CUDA GPU", numa_node = 0, subproc_count = 108, memory_size = "2G", is_mig_device = false }},
{{ mother_uuid = "{SECOND}", model_name = "CUDA GPU", numa_node = 1, subproc_count = 108, memory_size = "2G", is_mig_device = false }},
]
[attributes]
nvidia_driver = "550.54.15"
cuda_runtime = "12.4"
"""  # noqa: E501


@pytest.fixture(scope="module")
def _pair() -> Iterator[Box]:
    box = Box(TWO_DEVICES)
    box.up()
    yield box
    box.clear()
    box.down()


@pytest.fixture
def pair(_pair: Box) -> Iterator[Box]:
    """A server on two mock devices of 2 GiB, all free."""
    yield _pair
    _pair.clear()


def held(box: Box) -> dict[str, dict[str, int]]:
    """Milli-GPU by job, by device."""
    return {
        device["uuid"]: {holder["job"]: holder["share_milli"] for holder in device["holders"]}
        for device in box.json("devices", "--json")
    }


def test_shares_in_a_neighbours_words_are_split_as_its_users_know_it(pair: Box) -> None:
    small = pair.submit("--resource", "cuda.shares=0.2", "--", "sleep", "60")
    large = pair.submit("--resource", "cuda.shares=1.2", "--", "sleep", "60")
    pair.until_phase(large, "RUNNING")
    assert held(pair) == {FIRST: {large: 600}, SECOND: {small: 200, large: 600}}


def test_a_share_of_a_device_meets_others_on_it_and_memory_is_granted_with_it(pair: Box) -> None:
    jobs = [pair.submit("--gpus", "0.5", "--", "sleep", "60") for _ in range(2)]
    for job in jobs:
        pair.until_phase(job, "RUNNING")
    first, second = pair.json("devices", "--json")
    assert [(holder["job"], holder["memory_mib"]) for holder in second["holders"]] == [(job, 1024) for job in jobs]
    assert (first["state"], first["holders"]) == ("free", [])
