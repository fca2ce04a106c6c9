"""What the host itself brings."""

import os
from pathlib import Path

import pytest

from corral.core.model.fact import NodeObserved
from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Cause, Fit, fit
from corral.core.model.placing.state import node_state
from corral.core.model.view import View
from corral.host.telemetry.host import host_node, numa_cpus, numa_node_of


def test_a_host_offers_the_cpus_it_may_run_on_and_no_more_memory_than_it_has() -> None:
    node = host_node()
    installed_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    assert node.cpu_milli == 1000 * len(os.sched_getaffinity(0))
    assert 0 < node.memory_mib <= installed_mib


def test_labels_are_sorted_by_key() -> None:
    assert host_node(labels={"zone": "a", "rack": "7"}).labels == (("rack", "7"), ("zone", "a"))


def test_a_request_can_name_the_versions_of_a_host_as_labels() -> None:
    host = host_node(labels={"rack": "7"}, driver_version="580.159.03", cuda_version=(12, 8))
    state = node_state(View().advance([NodeObserved(host)]), host.name)
    carried = {"driver-version": "580.159.03", "cuda-major-version": "12", "cuda-minor-version": "8", "rack": "7"}
    for pair in carried.items():
        assert isinstance(fit(Request(devices=0, labels=(pair,)), state), Fit)
    other = fit(Request(devices=0, labels=(("cuda-major-version", "11"),)), state)
    assert getattr(other, "cause", None) is Cause.LABELS


def test_a_host_whose_versions_are_not_known_has_no_labels_of_them() -> None:
    assert host_node().labels == ()


def test_a_label_of_the_site_does_not_hide_what_the_driver_is() -> None:
    found = host_node(labels={"driver-version": "1"}, driver_version="580.1")
    assert found.labels == (("driver-version", "580.1"),)


@pytest.mark.parametrize(("text", "expected"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None)])
def test_the_numa_node_is_what_the_kernel_says(tmp_path: Path, text: str, expected: int | None) -> None:
    device = tmp_path / "0000:4a:00.0"
    device.mkdir()
    (device / "numa_node").write_text(text)
    assert numa_node_of("00000000:4A:00.0", tmp_path) == expected


def test_a_device_that_the_kernel_does_not_know_has_no_numa_node(tmp_path: Path) -> None:
    assert numa_node_of("00000000:4A:00.0", tmp_path) is None
    assert numa_node_of(None) is None


def test_the_cpus_of_numa_nodes_are_those_that_this_process_may_use(tmp_path: Path) -> None:
    mine = sorted(os.sched_getaffinity(0))
    for name, text in {"node0": str(mine[0]), "node1": "3000-3002", "node10": f"{mine[-1]},4000", "node2": "x"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(f"{text}\n")
    (tmp_path / "node3").mkdir()
    (tmp_path / "possible").write_text("0-1\n")
    assert numa_cpus(tmp_path) == ((0, (mine[0],)), (10, (mine[-1],)))
    assert numa_cpus(tmp_path / "none") == ()
