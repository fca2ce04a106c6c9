"""Quantities, and what a pod takes of its node as Kubernetes counts it."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.engines.kubernetes.cluster.amounts import NOTHING, Amounts, read_amounts, requests_of
from corral.engines.kubernetes.cluster.quantities import BadQuantity, milli, parse_quantity, whole

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("1", 1), ("0.5", Fraction(1, 2)), (".5", Fraction(1, 2)), ("5.", 5), ("250m", Fraction(1, 4)), ("1k", 1000),
        ("1Ki", 1024), ("1.5Gi", 3 << 29), ("2E", 2 * 10**18), ("2Ei", 2 << 60), ("12e6", 12_000_000),
        ("1E3", 1000), ("5e-1", Fraction(1, 2)), ("100n", Fraction(1, 10**7)), ("7u", Fraction(7, 10**6)),
        ("-1", -1), ("+3", 3), (4, 4),
    ],
)  # fmt: skip
def test_a_quantity_is_read_exactly(written: object, number: Fraction | int) -> None:
    assert parse_quantity(written) == number


@pytest.mark.parametrize(
    "written", ["", "x", "1 Gi", "1GiB", "1K", "0x10", "e3", "1e", "1e9999", "١", "1" * 50, None, True, 1.5, [], "1\n"]
)
def test_what_is_no_quantity_is_refused(written: object) -> None:
    for read in (parse_quantity, whole, milli):
        with pytest.raises(BadQuantity):
            read(written)


@given(st.integers(0, 10**17), st.sampled_from(["", "m", "k", "Mi", "Gi"]))
def test_rounding_goes_up_as_in_kubernetes(number: int, suffix: str) -> None:
    exact = parse_quantity(f"{number}{suffix}")
    assert exact <= whole(f"{number}{suffix}") < exact + 1
    assert 1000 * exact <= milli(f"{number}{suffix}") < 1000 * exact + 1


def container(restart: str | None = None, **asked: str) -> dict[str, Any]:
    requests = {name.replace("gpu", GPU): amount for name, amount in asked.items()}
    return {"resources": {"requests": requests}, **({"restartPolicy": restart} if restart else {})}


def test_containers_that_run_together_add_up() -> None:
    spec = {"containers": [container(cpu="500m", memory="1Gi", gpu="1"), container(cpu="1", gpu="2")]}
    assert requests_of(spec) == Amounts(1500, 1 << 30, pods=1, others={GPU: 3})


def test_the_largest_init_container_counts_where_it_is_larger() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi", gpu="2")],
        "initContainers": [container(cpu="3", gpu="1"), container(memory="4Gi")],
    }
    assert requests_of(spec) == Amounts(3000, 4 << 30, pods=1, others={GPU: 2})


def test_an_init_container_that_stays_counts_beside_all_that_comes_after_it() -> None:
    spec = {
        "containers": [container(cpu="1")],
        "initContainers": [container(cpu="4"), container("Always", cpu="2"), container(cpu="3")],
    }
    # 4 alone; 2 stays; 3 beside it are 5; 1 beside it are 3.
    assert requests_of(spec) == Amounts(5000, pods=1)


def test_limits_stand_for_requests_that_are_not_named() -> None:
    spec = {"containers": [{"resources": {"limits": {GPU: "4", "cpu": "8"}, "requests": {"cpu": "2"}}}]}
    assert requests_of(spec) == Amounts(2000, pods=1, others={GPU: 4})


def test_overhead_and_requests_of_the_whole_pod_count() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi", gpu="1")],
        "resources": {"requests": {"cpu": "6"}},
        "overhead": {"cpu": "250m", "memory": "64Mi"},
    }
    assert requests_of(spec) == Amounts(6250, (1 << 30) + (64 << 20), pods=1, others={GPU: 1})


def test_names_of_resources_are_compared_whole() -> None:
    amounts = read_amounts({GPU: "2", f"{GPU}.shared": "8", "nvidia.com/gpumem": "100"})
    assert amounts.of(GPU) == 2
    assert amounts.others == {GPU: 2, f"{GPU}.shared": 8, "nvidia.com/gpumem": 100}


def test_a_pod_that_asks_for_nothing_takes_a_place() -> None:
    assert requests_of({"containers": [{}]}) == Amounts(pods=1)
    assert read_amounts(None) == NOTHING
