"""What is read of a service's pods."""

from typing import Any

import pytest

from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.features.services.service_kinds import OME
from corral.features.services.service_pods import ServicePods, death_in_words


def pod_with(state: dict[str, Any], *, restarts: int = 0, name: str = "ome-container", init: bool = False) -> PodFacts:
    said = [{"name": name, "restartCount": restarts, "state": state}]
    statuses = {"initContainerStatuses" if init else "containerStatuses": said}
    return read_pod({"metadata": {"name": "a", "uid": "u"}, "status": {"phase": "Running", **statuses}})


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (pod_with({"running": {}}), None),
        (pod_with({"terminated": {"exitCode": 1, "reason": "Error"}}), "the server ended with exit code 1"),
        (pod_with({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}), "(OOMKilled)"),
        (pod_with({"waiting": {"reason": "CrashLoopBackOff"}}, restarts=1), "was started again (CrashLoopBackOff)"),
        (pod_with({"running": {}}, restarts=2), "was started again (running)"),
        (pod_with({"running": {}}, restarts=2, name="agent"), None),
        (pod_with({"terminated": {"exitCode": 0}}, name="fetch", init=True), None),
        (pod_with({"terminated": {"exitCode": 3}}, name="fetch", init=True), "exit code 3"),
    ],
)
def test_a_server_that_has_ended_once_is_dead_and_what_stands_beside_it_does_not_count(
    pod: PodFacts, words: str | None
) -> None:
    dead = ServicePods(OME, (pod,)).dead
    assert (dead is None) == (words is None)
    assert dead is None or (words or "") in death_in_words(dead[1])


def test_an_image_that_cannot_be_had_is_told_in_the_words_of_its_node() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "a"'}}
    assert ServicePods(OME, (pod_with(waiting),)).why_no_image == 'Back-off pulling image "a"'
    assert ServicePods(OME, (pod_with({"waiting": {"reason": "ContainerCreating"}}),)).why_no_image is None


def test_where_kubernetes_finds_no_place_its_words_are_kept() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: Insufficient nvidia.com/gpu"}
    pending = read_pod({"metadata": {"name": "a"}, "status": {"phase": "Pending", "conditions": [condition]}})
    pods = ServicePods(OME, (pending,))
    assert (pods.node, pods.why_no_place) == (None, "0/3 nodes: Insufficient nvidia.com/gpu")
