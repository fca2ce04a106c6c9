import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.engines.kubernetes.cluster.objects import time_s
from corral.engines.kubernetes.pods.manifest import pod_of, tombstone_of
from corral.engines.kubernetes.pods.names import ENDING, REASON, Names
from corral.engines.kubernetes.pods.pod_report import IMAGE_TROUBLE_S, UNSCHEDULABLE_S, report, trouble
from corral.engines.kubernetes.pods.site import PodSite
from corral.engines.kubernetes.pods.state import LaunchedPod, keep
from tests.engines.kubernetes.pods.launches import launch_of

NAMES = Names("abc123")
BEGAN, ENDED = "2026-11-22T10:00:00Z", "2026-11-22T10:00:05Z"
RUNNING: dict[str, Any] = {"running": {"startedAt": BEGAN}}


def terminated(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    return {
        "terminated": {"exitCode": code, "reason": reason, "startedAt": BEGAN, "finishedAt": ENDED, **more},
    }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def pod(
    phase: str = "Running",
    state: dict[str, Any] | None = None,
    *,
    deleted: int | None = None,
    marks: dict[str, str] | None = None,
    **status: Any,
) -> LaunchedPod:
    body = pod_of(launch_of(17), NAMES, "ml", PodSite(), kill_grace_s=10.0)
    body["metadata"] |= {"uid": "u", "creationTimestamp": BEGAN}
    body["metadata"]["annotations"] |= marks or {}
    if deleted is not None:
        body["metadata"] |= {"deletionTimestamp": ENDED, "deletionGracePeriodSeconds": deleted}
    if state is not None:
        status["containerStatuses"] = [{"name": "main", "state": state}]
    kept = keep({**body, "status": {"phase": phase, **status}})
    assert kept is not None
    return kept


def said(of: LaunchedPod) -> tuple[LaunchPhase, Phase | None, int | None, str]:
    told = report(of)
    return told.phase, told.ending, told.exit_code, told.reason or ""


def test_a_pod_that_is_there_is_claimed_and_runs_once_its_container_does() -> None:
    assert said(pod("Pending"))[0] is LaunchPhase.CLAIMED
    assert said(pod("Pending", waiting("ContainerCreating")))[0] is LaunchPhase.CLAIMED
    running = report(pod("Running", RUNNING))
    assert (running.phase, running.started_at) == (LaunchPhase.RUNNING, time_s(BEGAN))


def test_a_pod_that_has_not_begun_says_what_keeps_it_from_that() -> None:
    denied = report(pod("Pending", waiting("ErrImagePull", "denied")))
    assert denied.reason is not None
    assert denied.reason.startswith("its image cannot be pulled (ErrImagePull: denied); the job fails if")
    assert said(pod("Pending", waiting("CreateContainerError")))[3].startswith("its container cannot be made (")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no claim"}
    assert said(pod("Pending", conditions=[condition]))[3] == "the cluster's scheduler refuses its node: no claim"
    assert said(pod("Pending"))[3] == "node gpu-01 has not taken its pod yet"
    made = pod("Pending", waiting("ContainerCreating"))
    assert said(made)[3] == "its container is being made"
    warned = report(made, 'FailedMount: secret "keys" not found')
    assert warned.reason == 'its container is being made (FailedMount: secret "keys" not found)'
    assert report(pod("Running", RUNNING)).reason is None


def test_a_container_that_ended_says_how() -> None:
    well = report(pod("Succeeded", terminated(0, "Completed")))
    assert well == LaunchReport(
        "17.1",
        LaunchPhase.EXITED,
        started_at=time_s(BEGAN),
        ended_at=time_s(ENDED),
        exit_code=0,
        ending=Phase.SUCCEEDED,
    )
    assert said(pod("Failed", terminated(3))) == (LaunchPhase.EXITED, Phase.FAILED, 3, "")
    assert report(pod("Failed", terminated(137, signal=9))).signal == 9


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        (terminated(137, "OOMKilled"), 137, "more host memory than it was granted, and the kernel killed it"),
        (terminated(137, "Error"), 137, "killed; perhaps it used more host memory than it was granted"),
        (terminated(128, "StartError", message='exec: "trian": executable file not found in $PATH'), 127, "trian"),
        (terminated(128, "ContainerCannotRun", message="permission denied"), 126, "could not be started"),
        (terminated(1, "Odd", message="word"), 1, "Odd: word"),
    ],
)
def test_what_ended_a_container_is_said_in_words(state: dict[str, Any], code: int, words: str) -> None:
    phase, ending, exit_code, reason = said(pod("Failed", state))
    assert (phase, ending, exit_code) == (LaunchPhase.EXITED, Phase.FAILED, code)
    assert words in reason


@pytest.mark.parametrize(
    ("state", "more", "words"),
    [
        (
            terminated(137),
            {"reason": "Evicted", "message": "The node was low on memory"},
            "evicted.*low on mem",
        ),
        (terminated(143), {"deleted": 30}, "pod ml/corral-abc123-17-1-0 was deleted, and not by Corral"),
        (RUNNING, {"deleted": 0}, "was deleted, and not by Corral"),
        (
            terminated(143),
            {
                "deleted": 30,
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "by x"}
                ],
            },
            r"Kubernetes ended its pod on gpu-01 \(PreemptionByScheduler: by x\)",
        ),
        (terminated(137, "ContainerStatusUnknown"), {}, "its end is unknown"),
        (RUNNING, {"reason": "NodeLost", "phase": "Failed", "message": "gone"}, "has ended .NodeLost: gone"),
    ],
)
def test_what_the_cluster_ended_is_lost_with_why(state: dict[str, Any], more: dict[str, Any], words: str) -> None:
    told = report(pod(**{"phase": "Failed", **more}, state=state))
    assert told.phase is LaunchPhase.DEAD
    assert re.search(words, told.reason or ""), told.reason


def test_a_pod_that_is_being_deleted_runs_until_its_container_has_ended() -> None:
    assert report(pod("Running", RUNNING, deleted=30)).phase is LaunchPhase.RUNNING
    assert said(pod("Succeeded", terminated(0), deleted=30))[1] is Phase.SUCCEEDED


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "OutOfcpu", "OutOfnvidia.com/gpu", "NodeAffinity"])
def test_what_its_node_did_not_accept_goes_back_to_the_queue_with_its_words(reason: str) -> None:
    phase, ending, code, words = said(pod("Failed", reason=reason, message="no"))
    assert (phase, ending, code) == (LaunchPhase.DECLARED_LOST, None, None)
    assert words == f"node gpu-01 did not accept its pod ({reason}: no)"


def test_a_pod_that_was_deleted_before_it_began_goes_back_to_the_queue() -> None:
    phase, _, _, words = said(pod("Pending", deleted=0))
    assert phase is LaunchPhase.DECLARED_LOST
    assert "deleted before it began" in words


@pytest.mark.parametrize("ending", [Phase.CANCELLED, Phase.TIMED_OUT, Phase.FAILED])
def test_what_corral_ends_ends_as_it_wrote_down(ending: Phase) -> None:
    marks = {ENDING: ending.value, REASON: "why"}
    assert report(pod("Running", RUNNING, deleted=10, marks=marks)).phase is LaunchPhase.RUNNING
    assert said(pod("Failed", terminated(143), deleted=10, marks=marks)) == (LaunchPhase.EXITED, ending, 143, "why")
    assert said(pod("Pending", deleted=0, marks=marks))[:2] == (LaunchPhase.EXITED, ending)


def test_a_deadline_that_the_kubelet_kept_is_a_time_limit() -> None:
    assert said(pod("Failed", terminated(137), reason="DeadlineExceeded"))[1] is Phase.TIMED_OUT


def test_a_tombstone_was_never_run_unless_it_is_for_what_ran() -> None:
    for ran, phase in ((False, LaunchPhase.DECLARED_LOST), (True, LaunchPhase.DEAD)):
        kept = keep(tombstone_of("17.1", NAMES, "ml", PodSite(), ran=ran))
        assert kept is not None
        assert report(kept).phase is phase


def test_an_image_that_cannot_be_pulled_fails_after_a_stated_time_with_its_words() -> None:
    stuck = pod("Pending", waiting("ImagePullBackOff", "no such image repo/train:1"))
    assert trouble(stuck, IMAGE_TROUBLE_S - 1) is None
    found = trouble(stuck, IMAGE_TROUBLE_S)
    assert found is not None
    assert found[0] == Phase.FAILED
    assert found[1] == "its image could not be pulled after 2m (ImagePullBackOff: no such image repo/train:1)"
    assert trouble(pod("Pending", waiting("InvalidImageName")), 0.0) is not None
    assert trouble(pod("Pending", waiting("ContainerCreating")), 1e6) is None


def test_a_container_that_cannot_be_made_fails_and_one_without_a_place_goes_back() -> None:
    config = pod("Pending", waiting("CreateContainerConfigError", 'secret "s" not found'))
    assert trouble(config, IMAGE_TROUBLE_S) is not None
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    nowhere = pod("Pending", conditions=[condition])
    assert trouble(nowhere, UNSCHEDULABLE_S - 1) is None
    found = trouble(nowhere, UNSCHEDULABLE_S)
    assert found is not None
    assert report(pod("Pending", deleted=0, marks={ENDING: found[0], REASON: found[1]})).phase is (
        LaunchPhase.DECLARED_LOST
    )
    assert "0/3 nodes" in found[1]


plain = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
junk = plain | st.lists(plain, max_size=3) | st.dictionaries(st.text(max_size=6), plain, max_size=3)
states = st.fixed_dictionaries({}, optional={"terminated": junk, "running": junk, "waiting": junk})
containers = junk | st.lists(st.fixed_dictionaries({"state": states}), max_size=2)
statuses = st.fixed_dictionaries(
    {}, optional={"phase": junk, "reason": junk, "conditions": junk, "containerStatuses": containers}
)


@given(metadata=junk, spec=junk, status=statuses)
def test_no_status_is_so_odd_that_it_breaks_anything(metadata: Any, spec: Any, status: Any) -> None:
    keep({"metadata": metadata, "spec": spec, "status": status})
    body = pod_of(launch_of(17), NAMES, "ml", PodSite(), kill_grace_s=10.0)
    kept = keep({**body, "status": status})
    assert kept is not None
    assert report(kept).launch_id == "17.1"
    trouble(kept, 1e6)
