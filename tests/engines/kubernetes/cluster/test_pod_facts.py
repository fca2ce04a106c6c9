"""What is kept of pods."""

from corral.engines.kubernetes.cluster.pod_facts import ContainerFacts, read_pod
from tests.engines.kubernetes.manifests import pod


def test_a_pod_is_known_by_what_matters_here() -> None:
    item = pod("a", "team", gpus=2, node="n1", schedulerName="corral", priority=7)
    item["metadata"] |= {
        "uid": "u",
        "labels": {"app": "train"},
        "annotations": {"corral.dev/queue": "batch", "kubectl.kubernetes.io/last-applied-configuration": "{...}"},
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "ownerReferences": [
            {"kind": "Other", "name": "x", "uid": "1"},
            {"kind": "Job", "name": "train", "uid": "2", "controller": True},
        ],
    }
    facts = read_pod(item)
    assert (facts.namespace, facts.name, facts.node, facts.scheduler, facts.priority) == (
        "team",
        "a",
        "n1",
        "corral",
        7,
    )
    assert facts.annotations == {"corral.dev/queue": "batch"}
    assert facts.labels == {"app": "train"}
    assert str(facts.owner) == "Job/train"
    assert facts.requests.of("nvidia.com/gpu") == 2
    assert not facts.ended


def test_what_became_of_containers_is_read() -> None:
    item = pod("a", "team")
    terminated = {
        "exitCode": 137,
        "signal": 9,
        "reason": "OOMKilled",
        "startedAt": "2026-01-02T03:04:05Z",
        "finishedAt": "2026-01-02T03:04:06Z",
    }
    item["status"] = {
        "phase": "Failed",
        "initContainerStatuses": [{"name": "fetch", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
        "containerStatuses": [{"name": "main", "restartCount": 2, "ready": False, "state": {"terminated": terminated}}],
    }
    facts = read_pod(item)
    assert facts.ended
    assert facts.containers == (
        ContainerFacts("fetch", True, "waiting", reason="ImagePullBackOff"),
        ContainerFacts("main", False, "terminated", "OOMKilled", None, 137, 9, 1767323045.0, 1767323046.0, restarts=2),
    )


def test_requests_that_cannot_be_read_are_said_to_be_so() -> None:
    item = pod("a", "team")
    item["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "two"}}
    assert "two" in (read_pod(item).unreadable or "")
