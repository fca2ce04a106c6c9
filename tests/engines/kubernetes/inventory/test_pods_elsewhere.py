"""Which pods somebody else gives GPUs to, and what is said of them."""

from typing import Any

import pytest

from corral.engines.kubernetes.inventory.pods_elsewhere import PodElsewhere, keep_elsewhere, warning_of
from tests.engines.kubernetes import manifests


def kept(*, gpus: int = 1, labels: dict[str, str] | None = None, phase: str = "Pending", **spec: Any) -> Any:
    item = manifests.pod("one", "team", gpus=gpus, **spec)
    item["metadata"]["labels"] = labels or {}
    return keep_elsewhere({**item, "status": {"phase": phase}}, "corral", "aaaa")


def test_a_pod_with_gpus_of_another_scheduler_is_told_whether_it_waits_or_not() -> None:
    assert kept(schedulerName="volcano") == PodElsewhere("volcano", ("team", "one"), waits=True)
    assert kept(node="n1") == PodElsewhere("default-scheduler", ("team", "one"), waits=False)
    other = kept(node="n1", labels={"corral.dev/server": "bbbb"})
    assert other == PodElsewhere("another server of Corral, bbbb", ("team", "one"), waits=False)


@pytest.mark.parametrize(
    "given",
    [
        {"schedulerName": "corral"},
        {"gpus": 0},
        {"phase": "Succeeded"},
        {"node": "n1", "labels": {"corral.dev/server": "aaaa"}},
    ],
)
def test_ones_own_pods_and_those_that_take_no_gpu_are_none_of_them(given: dict[str, Any]) -> None:
    assert kept(**given) is None


def test_the_warning_names_some_says_what_happens_and_what_mends_it() -> None:
    pods = [PodElsewhere("default-scheduler", ("team", f"p{number}"), waits=False) for number in range(5)]
    said = str(warning_of(pods, "corral"))
    assert said.startswith(
        "5 pods of another scheduler (default-scheduler) have GPUs or wait for some: team/p0, team/p1"
    )
    assert "and others" in said
    assert "twice" in said
    assert "schedulerName: corral" in said
    assert "1 pod of another scheduler (default-scheduler) has GPUs" in str(warning_of(pods[:1], "corral"))
    assert warning_of([], "corral") is None
