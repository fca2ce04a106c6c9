"""Pods with `schedulerName: corral` on a real API server are queued, bound whole, ended and told why they wait."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.core.access.caller import Caller
from corral.core.control.changing.job_changes import Verb
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import LaunchPhase
from corral.core.ports.images import ImageFacts
from corral.engines.kubernetes.binding import binder
from corral.engines.kubernetes.binding.pods_of_others import BOUND_FOR
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import ClusterUnreachable, Rejected
from corral.engines.kubernetes.cluster.resource import EVENTS, PODS, ResourceType
from tests.certificates import needs_openssl
from tests.engines.kubernetes.binding.site import Site, pod_of_others, site
from tests.engines.kubernetes.refusing_webhook import WORDS, refusing_webhook

GANG = {"corral.dev/gang": "g", "corral.dev/gang-size": "2"}


@pytest.fixture
def place(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Site]:
    with site(cluster, namespace, tmp_path / "home") as running:
        yield running


def condition(found: dict[str, Any] | None) -> dict[str, Any]:
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def test_a_pod_is_a_job_from_its_coming_to_its_end(place: Site, cluster: Cluster, namespace: str) -> None:
    cluster.create(PODS, pod_of_others("one", namespace, gpus=2), namespace)
    place.eventually(lambda: place.node_of("one", namespace) is not None)
    job = place.job(namespace, "one")
    assert (job.spec.user, job.spec.request.devices, job.spec.request.gang_size) == (namespace, 2, 1)
    found = place.found("one", namespace)
    assert found is not None
    assert found["metadata"]["annotations"][BOUND_FOR] == f"{place.tag}/{job.id}.1"
    place.ended("one", namespace)
    place.eventually(lambda: place.job(namespace, "one").phase is Phase.SUCCEEDED)
    assert place.job(namespace, "one").exit_code == 0
    cluster.create(PODS, pod_of_others("two", namespace), namespace)
    place.eventually(lambda: place.node_of("two", namespace) is not None)
    place.ended("two", namespace, "Failed", 3)
    place.eventually(lambda: place.job(namespace, "two").phase is Phase.FAILED)
    assert place.job(namespace, "two").exit_code == 3
    assert len(place.all_jobs()) == 2


def test_a_pod_that_finds_no_room_is_told_why_in_an_event_and_a_condition(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    cluster.create(PODS, pod_of_others("big", namespace, gpus=9), namespace)
    place.eventually(lambda: "it needs 9 GPUs" in condition(place.found("big", namespace)).get("message", ""))
    assert condition(place.found("big", namespace))["reason"] == "Unschedulable"
    place.eventually(lambda: bool(cluster.list(EVENTS, Selection(namespace))))
    (event,) = cluster.list(EVENTS, Selection(namespace))
    assert (event["reason"], event["involvedObject"]["name"]) == ("FailedScheduling", "big")
    assert "it needs 9 GPUs" in event["message"]
    cluster.delete(PODS, "big", namespace)
    place.eventually(lambda: place.job(namespace, "big").phase is Phase.CANCELLED)
    assert f"its pod {namespace}/big was deleted" in (place.job(namespace, "big").reason or "")


@pytest.mark.parametrize("sign", ["-", "."])
def test_a_pod_with_a_long_name_is_told_in_an_event_too(
    place: Site, cluster: Cluster, namespace: str, sign: str
) -> None:
    name = "a" * 199 + sign + "b" * 40
    cluster.create(PODS, pod_of_others(name, namespace, gpus=9), namespace)
    place.eventually(lambda: bool(cluster.list(EVENTS, Selection(namespace))))
    (event,) = cluster.list(EVENTS, Selection(namespace))
    assert event["involvedObject"]["name"] == name


def test_a_pod_that_was_bound_and_does_not_begin_has_a_reason(place: Site, cluster: Cluster, namespace: str) -> None:
    cluster.create(PODS, pod_of_others("slow", namespace), namespace)
    place.eventually(lambda: place.node_of("slow", namespace) is not None)
    launch = f"{place.job(namespace, 'slow').id}.1"
    place.eventually(lambda: "has not taken its pod yet" in (place.runtime.report(launch).reason or ""))
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    container = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    status = {"containerStatuses": [{**container, "state": {"waiting": waiting}}]}
    cluster.patch(PODS, "slow", {"status": status}, namespace, subresource="status")
    place.eventually(lambda: "(ErrImagePull: no such image)" in (place.runtime.report(launch).reason or ""))


def test_what_is_not_understood_is_refused_in_an_event_and_never_bound(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    cluster.create(PODS, pod_of_others("part", namespace, annotations={"gpu-fraction": "0.5"}), namespace)
    place.eventually(lambda: "gpu-fraction" in condition(place.found("part", namespace)).get("message", ""))
    claim = {"name": "d", "persistentVolumeClaim": {"claimName": "missing"}}
    cluster.create(PODS, pod_of_others("claims", namespace, volumes=[claim]), namespace)
    place.eventually(lambda: "no claim missing" in condition(place.found("claims", namespace)).get("message", ""))
    queued = pod_of_others("queued", namespace, annotations={"corral.dev/queue": "nowhere" * 50})
    cluster.create(PODS, queued, namespace)
    place.eventually(lambda: "nowhere" in condition(place.found("queued", namespace)).get("message", ""))
    assert place.all_jobs() == []


def running(*command: str, gpus: int = 1, image: str = "example.test/vllm:1") -> list[dict[str, Any]]:
    limits = {"nvidia.com/gpu": str(gpus)}
    return [{"name": "main", "image": image, "command": list(command), "resources": {"limits": limits}}]


def test_a_pod_that_can_never_run_is_told_so_before_it_waits_unless_it_is_forced(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    wide = running("vllm", "serve", "Qwen/Qwen2.5-7B", "--tensor-parallel-size", "4", gpus=2)
    cluster.create(PODS, pod_of_others("wide", namespace, containers=wide), namespace)
    place.eventually(lambda: "uses 4 GPUs and 2" in condition(place.found("wide", namespace)).get("message", ""))
    assert 'corral.dev/force: "true"' in condition(place.found("wide", namespace))["message"]
    assert place.all_jobs() == []
    forced = pod_of_others("forced", namespace, containers=wide, annotations={"corral.dev/force": "true"})
    cluster.create(PODS, forced, namespace)
    place.eventually(lambda: place.node_of("forced", namespace) is not None)
    assert place.job(namespace, "forced").spec.forced_by == namespace


class SlowRegistry:
    """Has each image of `example.test`, built for CUDA 13.0; `answers` lets it answer."""

    def __init__(self) -> None:
        self.answers = threading.Event()

    def lists(self, image: str) -> bool:
        return image.startswith("example.test/")

    def facts(self, image: str) -> ImageFacts:
        self.answers.wait()
        return ImageFacts({"CUDA_VERSION": "13.0.1"}, {})


def test_an_image_is_read_while_other_pods_are_bound_and_its_cuda_counts(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    registry = SlowRegistry()
    with site(cluster, namespace, tmp_path / "home", registry=registry, driver_version="550.54.15") as place:
        cluster.create(PODS, pod_of_others("newer", namespace, containers=running("true")), namespace)
        elsewhere = running("true", image="other.test/train:1")
        cluster.create(PODS, pod_of_others("other", namespace, containers=elsewhere), namespace)
        place.eventually(lambda: place.node_of("other", namespace) is not None)
        assert place.node_of("newer", namespace) is None
        registry.answers.set()
        place.eventually(lambda: "CUDA 13.0" in condition(place.found("newer", namespace)).get("message", ""))
        assert [job.spec.name for job in place.all_jobs()] == [f"{namespace}/other"]


def test_a_pod_is_bound_unchecked_where_no_registry_answers(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binder, "IMAGE_S", 0.0)
    registry = SlowRegistry()
    with site(cluster, namespace, tmp_path / "home", registry=registry, driver_version="550.54.15") as place:
        cluster.create(PODS, pod_of_others("unread", namespace, containers=running("true")), namespace)
        place.eventually(lambda: place.node_of("unread", namespace) is not None)
        registry.answers.set()


def test_a_gang_is_bound_when_it_is_whole_and_not_before(place: Site, cluster: Cluster, namespace: str) -> None:
    cluster.create(PODS, pod_of_others("a", namespace, gpus=8, annotations=GANG), namespace)
    place.eventually(lambda: "1 are" in condition(place.found("a", namespace)).get("message", ""))
    assert place.all_jobs() == []
    cluster.create(PODS, pod_of_others("b", namespace, gpus=8, annotations=GANG), namespace)
    place.eventually(lambda: None not in (place.node_of("a", namespace), place.node_of("b", namespace)))
    assert place.node_of("a", namespace) != place.node_of("b", namespace)
    (job,) = place.all_jobs()
    assert [ref.name for ref in job.spec.pods] == ["a", "b"]


def test_a_gang_of_which_one_pod_is_taken_by_another_scheduler_is_undone(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    node = place.server.ledger.view().nodes
    first = min(node)
    blocker = pod_of_others("blocker", namespace, gpus=8)
    cluster.create(PODS, blocker, namespace)
    place.eventually(lambda: place.node_of("blocker", namespace) is not None)
    for name in ("a", "b"):
        cluster.create(PODS, pod_of_others(name, namespace, gpus=8, annotations=GANG), namespace)
    place.eventually(lambda: len(place.all_jobs()) == 2)
    found = place.found("a", namespace)
    assert found is not None
    cluster.bind("a", namespace, found["metadata"]["uid"], first)
    place.eventually(lambda: place.job(namespace, "g").phase is Phase.CANCELLED)
    assert "by another scheduler" in (place.job(namespace, "g").reason or "")
    place.eventually(lambda: place.found("b", namespace) is None)
    assert place.node_of("a", namespace) == first


@needs_openssl
def test_a_pod_whose_binding_a_webhook_refuses_waits_with_its_words_and_is_bound_once_it_may_be(
    place: Site, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with refusing_webhook(cluster, namespace, tmp_path, group="", resource="pods/binding"):
        cluster.create(PODS, pod_of_others("one", namespace), namespace)
        place.eventually(lambda: bool(place.all_jobs()) and WORDS in (place.job(namespace, "one").reason or ""))
        assert place.node_of("one", namespace) is None
        # None of what is tried counts as a failure, of which the fifth would end it.
        assert place.job(namespace, "one").launch_failures == 0
    place.eventually(lambda: place.node_of("one", namespace) is not None)


def test_a_gang_of_which_a_pod_goes_between_decision_and_binding_is_undone(
    place: Site, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind, tried = cluster.bind, list[str]()

    def bind_late(pod: str, *where: str, **more: Any) -> None:
        tried.append(pod)
        if pod == "b":
            place.eventually(lambda: place.node_of("a", namespace) is not None)
            cluster.delete(PODS, "b", namespace)
        bind(pod, *where, **more)

    monkeypatch.setattr(cluster, "bind", bind_late)
    for name in ("a", "b"):
        cluster.create(PODS, pod_of_others(name, namespace, gpus=8, annotations=GANG), namespace)
    place.eventually(lambda: bool(place.all_jobs()) and place.all_jobs()[0].phase is Phase.CANCELLED)
    place.eventually(lambda: place.found("a", namespace) is None)
    assert "was deleted" in (place.all_jobs()[0].reason or "")
    assert sorted(set(tried)) == ["a", "b"]
    assert not place.server.ledger.view().allocations


def test_a_server_that_dies_while_a_gang_is_bound_ends_with_all_of_it_bound_or_none(
    place: Site, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind = cluster.bind
    seen = threading.Event()

    def bind_and_hang(pod: str, *where: str, **more: Any) -> None:
        if pod == "b" and not seen.is_set():
            seen.set()
            raise ClusterUnreachable("the API server has not answered")
        bind(pod, *where, **more)

    monkeypatch.setattr(cluster, "bind", bind_and_hang)
    for name in ("a", "b"):
        cluster.create(PODS, pod_of_others(name, namespace, gpus=8, annotations=GANG), namespace)
    assert seen.wait(60)
    place.eventually(lambda: place.node_of("a", namespace) is not None)
    place.restart()

    def whole() -> bool:
        bound = [place.node_of(name, namespace) is not None for name in ("a", "b")]
        return all(bound) or place.all_jobs()[0].phase is Phase.CANCELLED

    place.eventually(whole)
    if place.all_jobs()[0].phase is Phase.CANCELLED:
        place.eventually(lambda: place.found("a", namespace) is None and place.found("b", namespace) is None)
        assert not place.server.ledger.view().allocations


def test_a_cancelled_job_takes_its_pod_with_it_bound_or_not(place: Site, cluster: Cluster, namespace: str) -> None:
    cluster.create(PODS, pod_of_others("runs", namespace), namespace)
    cluster.create(PODS, pod_of_others("waits", namespace, gpus=9), namespace)
    place.eventually(lambda: place.node_of("runs", namespace) is not None and len(place.all_jobs()) == 2)
    for name in ("runs", "waits"):
        place.server.service.changes.one(Verb.CANCEL, place.job(namespace, name).id, Caller(namespace))
    place.eventually(lambda: all(job.phase is Phase.CANCELLED for job in place.all_jobs()))
    place.eventually(lambda: place.found("runs", namespace) is None and place.found("waits", namespace) is None)


def test_a_pod_whose_deletion_fails_is_deleted_as_soon_as_that_can_be(
    place: Site, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete, failed = cluster.delete, list[str]()

    def fail_twice(resource: ResourceType, name: str, *where: str, **more: Any) -> None:
        if len(failed) < 2:
            failed.append(name)
            raise ClusterUnreachable("the API server has not answered")
        delete(resource, name, *where, **more)

    cluster.create(PODS, pod_of_others("waits", namespace, gpus=9), namespace)
    place.eventually(lambda: len(place.all_jobs()) == 1)
    monkeypatch.setattr(cluster, "delete", fail_twice)
    place.server.service.changes.one(Verb.CANCEL, place.job(namespace, "waits").id, Caller(namespace))
    place.eventually(lambda: place.found("waits", namespace) is None)
    assert failed == ["waits", "waits"]


def test_a_pod_that_is_deleted_while_it_runs_is_a_cancelled_job(place: Site, cluster: Cluster, namespace: str) -> None:
    cluster.create(PODS, pod_of_others("runs", namespace), namespace)
    place.runs("runs", namespace)
    cluster.delete(PODS, "runs", namespace)
    place.eventually(lambda: place.job(namespace, "runs").phase is Phase.CANCELLED)
    assert not place.server.ledger.view().allocations


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 3)])
def test_a_pod_that_is_removed_as_soon_as_it_has_ended_has_ended_as_it_did(
    place: Site, cluster: Cluster, namespace: str, phase: str, code: int
) -> None:
    cluster.create(PODS, pod_of_others("ends", namespace), namespace)
    place.runs("ends", namespace)
    # Whoever reads reports is slower than the two changes of the pod.
    tell, place.runtime.on_event = place.runtime.on_event, lambda launch_id: None
    place.ended("ends", namespace, phase, code)
    cluster.delete(PODS, "ends", namespace, grace_s=0)
    place.eventually(lambda: place.pods.get("ends", namespace) is None)
    tell(f"{place.job(namespace, 'ends').id}.1")
    place.eventually(lambda: place.job(namespace, "ends").phase.terminal)
    assert (place.job(namespace, "ends").phase, place.job(namespace, "ends").exit_code) == (Phase[phase.upper()], code)


def test_an_end_that_the_watch_has_not_told_yet_can_be_looked_up(place: Site, cluster: Cluster, namespace: str) -> None:
    cluster.create(PODS, pod_of_others("ends", namespace), namespace)
    place.runs("ends", namespace)
    place.stop_watching()
    place.ended("ends", namespace)
    launch_id = f"{place.job(namespace, 'ends').id}.1"
    assert place.runtime.report(launch_id).phase is LaunchPhase.RUNNING
    place.runtime.look(launch_id)
    assert place.runtime.report(launch_id).exit_code == 0


def test_a_server_that_starts_anew_queues_no_pod_twice_and_loses_none(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    cluster.create(PODS, pod_of_others("runs", namespace), namespace)
    cluster.create(PODS, pod_of_others("waits", namespace, gpus=9), namespace)
    cluster.create(PODS, pod_of_others("ends", namespace), namespace)
    place.eventually(lambda: len(place.all_jobs()) == 3)
    place.runs("runs", namespace)
    place.runs("ends", namespace)
    place.binder.close()
    place.ended("ends", namespace)
    cluster.delete(PODS, "waits", namespace)
    cluster.create(PODS, pod_of_others("new", namespace), namespace)
    place.restart()
    place.eventually(lambda: place.node_of("new", namespace) is not None)
    place.eventually(lambda: place.job(namespace, "ends").phase is Phase.SUCCEEDED)
    place.eventually(lambda: place.job(namespace, "waits").phase is Phase.CANCELLED)
    assert len(place.all_jobs()) == 4
    assert place.job(namespace, "runs").phase is Phase.RUNNING


def test_pods_of_other_schedulers_are_left_alone(place: Site, cluster: Cluster, namespace: str) -> None:
    other = pod_of_others("theirs", namespace)
    other["spec"]["schedulerName"] = "someone-else"
    cluster.create(PODS, other, namespace)
    cluster.create(PODS, pod_of_others("mine", namespace), namespace)
    place.eventually(lambda: place.node_of("mine", namespace) is not None)
    assert place.node_of("theirs", namespace) is None


def test_a_pod_that_another_server_binds_is_not_deleted_with_its_job(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    node = min(place.server.ledger.view().nodes)
    cluster.create(PODS, pod_of_others("big", namespace, gpus=9), namespace)
    place.eventually(lambda: bool(place.all_jobs()))
    found = place.found("big", namespace)
    assert found is not None
    # The other server counts its jobs from 1, too.
    cluster.bind("big", namespace, found["metadata"]["uid"], node, annotations={BOUND_FOR: "othr/1.1"})
    place.eventually(lambda: place.job(namespace, "big").phase is Phase.CANCELLED)
    place.eventually(lambda: not place.binder._unwanted)
    assert place.runtime.declare_lost("1.1")
    place.runtime.stop("1.1")
    assert place.node_of("big", namespace) == node
    assert place.runtime.launches() == ()


def test_a_pod_that_is_bound_by_another_while_it_is_deleted_stays(
    place: Site, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = min(place.server.ledger.view().nodes)
    delete = cluster.delete

    def delete_late(*what: Any, **more: Any) -> None:
        found = place.found("big", namespace)
        if found is not None and "nodeName" not in found["spec"]:
            cluster.bind("big", namespace, found["metadata"]["uid"], node)
        delete(*what, **more)

    cluster.create(PODS, pod_of_others("big", namespace, gpus=9), namespace)
    place.eventually(lambda: bool(place.all_jobs()))
    monkeypatch.setattr(cluster, "delete", delete_late)
    place.server.service.changes.one(Verb.CANCEL, place.all_jobs()[0].id, Caller(namespace))
    place.eventually(lambda: place.node_of("big", namespace) == node)
    place.eventually(lambda: not place.binder._unwanted)
    assert place.node_of("big", namespace) == node


def test_what_was_bound_before_marks_had_tags_stays_its_jobs_and_ends_as_it_does(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    cluster.create(PODS, pod_of_others("old", namespace), namespace)
    place.runs("old", namespace)
    launch = f"{place.job(namespace, 'old').id}.1"
    cluster.patch(PODS, "old", {"metadata": {"annotations": {BOUND_FOR: launch}}}, namespace)
    place.restart()
    assert place.runtime.report(launch).phase is LaunchPhase.RUNNING
    place.ended("old", namespace)
    place.eventually(lambda: place.job(namespace, "old").phase is Phase.SUCCEEDED)


def test_the_pods_of_a_gang_are_told_what_it_waits_for_as_others_come_and_go_and_that_they_are_bound(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    three = {**GANG, "corral.dev/gang-size": "3"}

    def told(name: str) -> str:
        events = cluster.list(EVENTS, Selection(namespace, fields=f"involvedObject.name={name}"))
        return " ".join(f"{event['type']} {event['reason']}: {event['message']}" for event in events)

    cluster.create(PODS, pod_of_others("a", namespace, annotations=three), namespace)
    place.eventually(lambda: "1 are" in told("a"))
    cluster.create(PODS, pod_of_others("b", namespace, annotations=three), namespace)
    place.eventually(lambda: "2 are" in told("b") and "2 are" in told("a"))
    cluster.delete(PODS, "b", namespace)
    place.eventually(lambda: "1 are" in told("a"))
    for name in ("c", "d"):
        cluster.create(PODS, pod_of_others(name, namespace, annotations=three), namespace)
    place.eventually(lambda: None not in (place.node_of(name, namespace) for name in "acd"))
    node = place.node_of("a", namespace)
    place.eventually(lambda: told("a") == f"Normal Scheduled: bound to {node}")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_binding_that_lands_after_its_launch_was_given_up_leaves_a_job_that_agrees_with_its_pod(
    place: Site, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch, *, elsewhere: bool
) -> None:
    bind, calls = cluster.bind, itertools.count(1)

    def bind_late(name: str, where: str, uid: str, node: str, **more: Any) -> None:
        number = next(calls)
        if number == 1:
            raise Rejected("no room in the queue of the API server")
        if number == 2:
            other = next(one for one in place.server.ledger.view().nodes if (one != node) == elsewhere)
            bind(name, where, uid, other, annotations=place.marks.of(f"{place.job(namespace, 'one').id}.1"))
        bind(name, where, uid, node, **more)

    monkeypatch.setattr(cluster, "bind", bind_late)
    cluster.create(PODS, pod_of_others("one", namespace), namespace)
    if elsewhere:
        place.eventually(lambda: any(job.phase.terminal for job in place.all_jobs()))
        place.eventually(lambda: place.found("one", namespace) is None)
    else:
        place.runs("one", namespace)
        place.ended("one", namespace)
        place.eventually(lambda: place.job(namespace, "one").phase is Phase.SUCCEEDED)
