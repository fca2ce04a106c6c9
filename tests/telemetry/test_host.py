"""What the host itself brings."""

import os
from pathlib import Path

import pytest

from corral.telemetry.host import host_node, numa_node_of


def test_a_host_offers_the_cpus_it_may_run_on_and_no_more_memory_than_it_has() -> None:
    node = host_node()
    installed_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    assert node.cpu_milli == 1000 * len(os.sched_getaffinity(0))
    assert 0 < node.memory_mib <= installed_mib


def test_labels_are_sorted_by_key() -> None:
    assert host_node(labels={"zone": "a", "rack": "7"}).labels == (("rack", "7"), ("zone", "a"))


@pytest.mark.parametrize(("text", "expected"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None)])
def test_the_numa_node_is_what_the_kernel_says(tmp_path: Path, text: str, expected: int | None) -> None:
    device = tmp_path / "0000:4a:00.0"
    device.mkdir()
    (device / "numa_node").write_text(text)
    assert numa_node_of("00000000:4A:00.0", tmp_path) == expected


def test_a_device_that_the_kernel_does_not_know_has_no_numa_node(tmp_path: Path) -> None:
    assert numa_node_of("00000000:4A:00.0", tmp_path) is None
    assert numa_node_of(None) is None
