"""A nearly full fleet is decided upon quickly, and its size hardly matters."""

from corral.sim.benchmarks.scale import FILLED, run_scale


def test_a_fleet_is_kept_as_full_as_it_was_asked_to_be() -> None:
    found = run_scale(nodes=60, gpus_per_node=8, jobs=300)
    assert abs(found["allocation_pct"] - 100 * FILLED) < 2.5
    assert 0 < found["placed_jobs"] <= found["jobs"] == 300


def test_a_fleet_with_more_gpus_than_its_cores_can_serve_is_kept_below_what_it_can_hold() -> None:
    found = run_scale(nodes=20, gpus_per_node=64, jobs=200, policy="pack")
    assert found["allocation_pct"] < found["kept_pct"] + 1 < 50
    assert found["placed_jobs"] > 100


def test_every_key_of_the_report_is_there() -> None:
    found = run_scale(nodes=4, gpus_per_node=2, jobs=10, policy="pack")
    assert {"policy", "nodes", "jobs", "decisions_per_s", "decision_ms", "peak_mib", "wall_s"} <= set(found)
    assert {"placed_jobs", "kept_pct", "allocation_pct"} <= set(found)
    assert set(found["decision_ms"]) == {"p50", "p99"}


def test_the_same_fleet_ends_in_the_same_state() -> None:
    first, second = (run_scale(nodes=30, gpus_per_node=8, jobs=200) for _ in range(2))
    assert (first["allocation_pct"], first["placed_jobs"]) == (second["allocation_pct"], second["placed_jobs"])
