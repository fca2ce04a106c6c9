"""The replay of openb equals the published one exactly, and the policy of our own beats it."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.sim.benchmarks.openb import SHIPPED, replay, run_openb, shipped_trace, target_mix
from tests.sim.conftest import Recorded

pytestmark = pytest.mark.long

FGD_MILLI, BEST_FIT_MILLI = 5_919_410, 5_785_450
"""Milli-GPU that the authors' policies allocate on the default trace in the order of seed 42."""


@cache
def report(policy: str) -> dict[str, Any]:
    return replay(shipped_trace(), policy)


def test_fgd_allocates_exactly_what_its_authors_program_does() -> None:
    found = report("fgd")
    assert found["allocated_milli"] == FGD_MILLI
    assert found["failed_pods"] == 2532
    assert found["frag_pct"] == pytest.approx({"80": 5.96, "100": 4.83, "130": 4.69}, abs=0.006)
    assert found["allocation_pct"] == pytest.approx({"80": 79.99, "100": 95.14, "130": 95.29}, abs=0.006)


def test_best_fit_allocates_exactly_what_the_authors_program_does() -> None:
    found = report("best-fit")
    assert (found["allocated_milli"], found["failed_pods"]) == (BEST_FIT_MILLI, 2676)


def test_corral_is_fuller_than_fgd_without_being_told_the_workload() -> None:
    assert report("corral")["allocation_pct"]["100"] >= 96.1


@pytest.mark.parametrize("policy", ["fgd", "best-fit", "corral"])
def test_no_policy_refuses_a_pod_that_fits(policy: str) -> None:
    found = report(policy)
    assert found["refused_though_fitting"] == 0
    assert found["arrived_pods"] == 10_866


def test_the_same_replay_gives_the_same_result() -> None:
    trace = shipped_trace()
    begun = replace(trace, arrivals=trace.arrivals[:2_000])
    first, second = (replay(begun, "corral") for _ in range(2))
    assert first["allocated_milli"] == second["allocated_milli"] > 0
    assert first["frag_pct"] == second["frag_pct"]


def test_the_target_workload_covers_most_pods_with_few_classes() -> None:
    trace = shipped_trace()
    mix = target_mix(trace.pods)
    assert len(mix) == 35
    assert sum(count for _, count in mix) >= 0.95 * len(trace.pods)


def test_a_trace_that_is_read_in_file_order_stops_when_enough_has_arrived() -> None:
    trace = shipped_trace(arrivals="file")
    asked = [pod.total_milli for pod in trace.arrivals]
    assert sum(asked) >= trace.capacity_milli * 101 // 100 > sum(asked[:-1])


def test_a_bin_that_was_not_reached_has_no_figure() -> None:
    trace = shipped_trace(arrivals="file")
    found = replay(replace(trace, arrivals=trace.arrivals[:10]), "pack")
    assert found["allocation_pct"] == {"80": None, "100": None, "130": None}


def test_an_unknown_policy_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Refused, match="'fdg' is not a placement policy; did you mean 'fgd'"):
        replay(shipped_trace(), "fdg")


def test_a_seed_without_an_order_is_refused_with_those_there_are() -> None:
    nodes, pods, order = (
        SHIPPED / name
        for name in ("openb_node_list_gpu_node.csv.gz", "openb_pod_list_default.csv.gz", "openb_order_default.json.gz")
    )
    with pytest.raises(Refused, match="no order for seed 7; it has 42"):
        run_openb(nodes, pods, order, seed=7)


NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,500\n"
ORDER = '{"seeds": {"42": {"nodes": [0], "pods": [0, 0, 0, 0, 0]}}}'


def small(folder: Path, *, nodes: str = NODES, pods: str = PODS, order: str = ORDER, arrivals: str = "sequence") -> Any:
    for name, text in (("nodes", nodes), ("pods", pods), ("order", order)):
        (folder / name).write_text(text)
    return run_openb(folder / "nodes", folder / "pods", folder / "order", arrivals=arrivals, policy="pack")


def test_a_trace_of_ones_own_is_replayed(tmp_path: Path) -> None:
    found = small(tmp_path)
    assert (found["allocated_milli"], found["failed_pods"]) == (2000, 1)


def test_nodes_of_one_name_are_several(tmp_path: Path) -> None:
    twice = NODES + NODES.splitlines()[1] + "\n"
    found = small(tmp_path, nodes=twice, order=ORDER.replace('"nodes": [0]', '"nodes": [0, 1, 1]'))
    assert (found["capacity_milli"], found["allocated_milli"], found["failed_pods"]) == (6000, 2500, 0)


def test_a_file_as_spreadsheets_write_it_is_read(tmp_path: Path) -> None:
    marked = "\ufeff" + NODES.replace("\n", "\r\n")
    assert small(tmp_path, nodes=marked)["allocated_milli"] == 2000


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"nodes": PODS}, "--nodes: .* has no column"),
        ({"pods": PODS.replace("500", "half")}, "--pods: line 2 of .*half"),
        ({"pods": PODS.replace(",1,500", ",-1,500")}, "num_gpu is -1; it cannot be less than 0"),
        ({"pods": PODS.replace(",1,500", ",0,0"), "arrivals": "file"}, "no pod of .* asks for a GPU"),
        ({"pods": PODS.replace("1000,", "1000.0,")}, "--pods: line 2 of .*cpu_milli is '1000.0', which is not a whole"),
        ({"nodes": NODES.replace(",2,P100", ",0,")}, "--nodes: there is no GPU on the 1 nodes of .* in this order"),
        ({"order": ORDER.replace("[0]", "[]")}, "--nodes: there is no GPU on the 0 nodes of .* in this order"),
        ({"order": "sn,cpu"}, "--order: .* does not hold orders by seed"),
        ({"order": "[]"}, "--order: .* does not hold orders by seed"),
        ({"order": ORDER.replace("[0]", "[7]")}, "names rows beyond the 1 nodes and 1 pods given"),
        ({"arrivals": "files"}, "--arrivals: 'files' is unknown; did you mean 'file'"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named_with_its_line(
    tmp_path: Path, broken: dict[str, str], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        small(tmp_path, **broken)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"--nodes: .*none cannot be read: No such file"):
        run_openb(tmp_path / "none", tmp_path / "none", tmp_path / "none")


@pytest.mark.parametrize(("trace", "fgd_pct"), [("gpushare100", 74.87), ("gpuspec33", 87.24)])
def test_pods_in_the_files_own_order_do_not_lead_the_learner_astray(
    recorded: Recorded, trace: str, fgd_pct: float
) -> None:
    """CPU-only pods come first in one of them, the constrained models in lumps in the other."""
    openb = recorded("openb")
    found = run_openb(
        openb / "csv/openb_node_list_gpu_node.csv",
        openb / f"csv/openb_pod_list_{trace}.csv",
        openb / f"sequences/{trace}.json.gz",
        arrivals="file",
    )
    assert found["allocation_pct"]["100"] > fgd_pct + 5
