"""Pods on a node are read as far as they ask for devices, whatever their users wrote."""

from typing import Any

import pytest

from corral.engines.kubernetes.agent.plugin.bound_pods import ContainerAsk, keep_bound_pod
from corral.engines.kubernetes.inventory.planned_devices import DEVICES, PlannedDevice


def pod(limits: Any = None, *, annotations: Any = None, phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": limits}}
    return {
        "metadata": {"namespace": "team", "name": "p", "uid": "u", "annotations": annotations},
        "spec": {"nodeName": "n", "containers": [container], **spec},
        "status": {"phase": phase},
    }


def test_a_pod_is_kept_with_what_its_containers_ask_for() -> None:
    init = [
        {"name": "init", "resources": {"limits": {"amd.com/gpu": "1"}}},
        {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
    ]
    found = keep_bound_pod(pod({"nvidia.com/gpu": "2", "cpu": "1"}, initContainers=init))
    assert found is not None
    assert found.containers == (
        ContainerAsk("init", True, {"amd.com/gpu": 1}),
        ContainerAsk("side", False, {"nvidia.com/gpu": 1}),
        ContainerAsk("main", False, {"nvidia.com/gpu": 2}),
    )
    assert found.plan is None


@pytest.mark.parametrize(
    "other",
    [
        pod({"cpu": "1"}),
        pod({"nvidia.com/gpu": "0"}),
        pod({"nvidia.com/gpu": "1"}, phase="Succeeded"),
        pod({"nvidia.com/gpu": "1"}, nodeName=""),
        pod({"nvidia.com/gpu": "nonsense"}),
        pod([["nvidia.com/gpu", "1"]]),
        {},
    ],
)
def test_other_pods_are_not_kept(other: dict[str, Any]) -> None:
    assert keep_bound_pod(other) is None


def test_a_plan_is_read_and_nonsense_is_known_as_such() -> None:
    planned = keep_bound_pod(pod({"nvidia.com/gpu": "1"}, annotations={DEVICES: "GPU-1:1000::exclusive"}))
    assert planned is not None
    assert (planned.plan, planned.bad_plan) == ((PlannedDevice("GPU-1"),), False)
    for nonsense in ("GPU-1", "", "GPU-1:1000::exclusive," * 400, "GPU-1:100:0:hook"):
        found = keep_bound_pod(pod({"nvidia.com/gpu": "1"}, annotations={DEVICES: nonsense}))
        assert found is not None
        assert found.bad_plan


def test_every_container_is_read_however_many_there_are() -> None:
    idle: list[dict[str, Any]] = [{"name": f"idle-{number}"} for number in range(1000)]
    asks = {"name": "last", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    found = keep_bound_pod(pod(containers=[*idle, asks]))
    assert found is not None
    assert found.containers == (ContainerAsk("last", False, {"nvidia.com/gpu": 1}),)
