"""Derives the state of a launch from its pod's status. Pure: the duration of a trouble is an argument."""

from signal import SIGKILL

from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.exit_code import SIGNAL_BASE
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.units import format_duration
from corral.engines.kubernetes.pods.state import LaunchedPod

NEVER_RAN = "NEVER_RAN"
"""The ending of a pod that Corral gave up before its container began. Its job goes back to the queue."""

IMAGE_TROUBLE_S = 120.0
"""The time after which a job fails if its image cannot be pulled or its container cannot be created."""

UNSCHEDULABLE_S = 60.0
"""The time for which the cluster's scheduler may refuse the chosen node, if a pod's volumes need that scheduler."""

_IMAGE = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"),
        *("ImageInspectError", "SignatureValidationFailed"),
    }
)
_CONTAINER = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"}
)
_AT_ONCE = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""Reasons for which waiting never helps."""

_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_KILLED = SIGNAL_BASE + SIGKILL


def report(pod: LaunchedPod, warning: str | None = None) -> LaunchReport:
    """Return the report of a launch from its pod. `warning` is the cluster's warning about a pod that has not begun."""
    if pod.tombstone:
        ran = pod.ending == LaunchPhase.DEAD
        return LaunchReport(pod.launch_id, LaunchPhase.DEAD if ran else LaunchPhase.DECLARED_LOST, reason=_why(pod))
    if not pod.over:
        if pod.started_at is None:
            return LaunchReport(pod.launch_id, LaunchPhase.CLAIMED, reason=_why_it_has_not_begun(pod, warning))
        return LaunchReport(pod.launch_id, LaunchPhase.RUNNING, started_at=pod.started_at)
    if pod.ending in (Phase.CANCELLED, Phase.TIMED_OUT, Phase.FAILED):
        return _exited(pod, Phase(pod.ending), _why(pod))
    if pod.reason == "DeadlineExceeded":
        return _exited(pod, Phase.TIMED_OUT, pod.message or "its pod's activeDeadlineSeconds are over")
    if not pod.has_run:
        return LaunchReport(pod.launch_id, LaunchPhase.DECLARED_LOST, reason=_why_it_never_ran(pod))
    if pod.exit_code is not None and not _ended_by_the_cluster(pod):
        return _by_itself(pod, pod.exit_code)
    return LaunchReport(
        pod.launch_id,
        LaunchPhase.DEAD,
        started_at=pod.started_at,
        ended_at=pod.ended_at,
        exit_code=pod.exit_code,
        reason=_why_the_cluster_ended_it(pod),
    )


def trouble(pod: LaunchedPod, since_s: float) -> tuple[str, str] | None:
    """Return the ending, with its reason, of a pod that has been in its trouble for `since_s`. None while it may go on.

    A pod whose image or configuration fails has FAILED; a pod without a place has never run.
    """
    if pod.has_run or pod.over or pod.ending:
        return None
    words = f": {pod.waiting_message}" if pod.waiting_message else ""
    for_long = f"after {format_duration(IMAGE_TROUBLE_S)}"
    if pod.waiting in _IMAGE and (pod.waiting in _AT_ONCE or since_s >= IMAGE_TROUBLE_S):
        when = "" if pod.waiting in _AT_ONCE else f" {for_long}"
        return Phase.FAILED, f"its image could not be pulled{when} ({pod.waiting}{words})"
    if pod.waiting in _CONTAINER and since_s >= IMAGE_TROUBLE_S:
        return Phase.FAILED, f"its container could not be made {for_long} ({pod.waiting}{words})"
    if pod.unschedulable is not None and since_s >= UNSCHEDULABLE_S:
        why = f"the cluster's scheduler refuses its node for {format_duration(UNSCHEDULABLE_S)}: {pod.unschedulable}"
        return NEVER_RAN, why
    return None


def in_trouble(pod: LaunchedPod) -> str | None:
    """Return the kind of trouble that keeps the pod from beginning, if it may pass; for the clock of `trouble`."""
    if pod.has_run or pod.over:
        return None
    if pod.waiting in _IMAGE:
        return "image"
    return "container" if pod.waiting in _CONTAINER else "place" if pod.unschedulable is not None else None


def _why_it_has_not_begun(pod: LaunchedPod, warning: str | None) -> str:
    words = f"({pod.waiting}{f': {pod.waiting_message}' if pod.waiting_message else ''})"
    match in_trouble(pod):
        case "image":
            return f"its image cannot be pulled {words}; the job fails if this lasts two minutes"
        case "container":
            return f"its container cannot be made {words}; the job fails if this lasts two minutes"
        case "place":
            return f"the cluster's scheduler refuses its node: {pod.unschedulable}"
    found = "its container is being made" if pod.waiting else f"node {pod.node} has not taken its pod yet"
    return found if warning is None else f"{found} ({warning})"


def _why(pod: LaunchedPod) -> str | None:
    return pod.ending_reason or None


def _exited(pod: LaunchedPod, ending: Phase, reason: str | None) -> LaunchReport:
    return LaunchReport(
        pod.launch_id,
        LaunchPhase.EXITED,
        started_at=pod.started_at,
        ended_at=pod.ended_at,
        exit_code=pod.exit_code,
        signal=pod.signal,
        ending=ending,
        reason=reason,
    )


def _by_itself(pod: LaunchedPod, code: int) -> LaunchReport:
    if code == 0:
        return _exited(pod, Phase.SUCCEEDED, None)
    words = f": {pod.ended_message}" if pod.ended_message else ""
    if pod.ended_reason == "OOMKilled":
        why = f"it used more host memory than it was granted, and the kernel killed it (OOMKilled){words}"
        return _exited(pod, Phase.FAILED, why)
    if pod.ended_reason in _NOT_STARTED:
        code = NOT_EXECUTABLE if "permission denied" in words.lower() else NOT_FOUND
        failed = _exited(pod, Phase.FAILED, f"its command could not be started ({pod.ended_reason}{words})")
        return LaunchReport(failed.launch_id, failed.phase, ending=Phase.FAILED, exit_code=code, reason=failed.reason)
    usual = pod.ended_reason in ("", "Error", "Completed")
    if usual and code == _KILLED:
        # Docker and containerd learn of the kernel's reason apart from the end; a kubelet reports whichever came first.
        return _exited(pod, Phase.FAILED, "it was killed; perhaps it used more host memory than it was granted")
    return _exited(pod, Phase.FAILED, None if usual else f"its container ended: {pod.ended_reason}{words}")


def _ended_by_the_cluster(pod: LaunchedPod) -> bool:
    """Return whether the cluster, not Corral, ended the pod and so its container. An exit of 0 is the container's
    own.
    """
    unknown = pod.ended_reason == "ContainerStatusUnknown"
    ended = pod.deleted_at is not None or pod.disruption is not None or bool(pod.reason)
    return unknown or (ended and pod.exit_code != 0)


def _why_the_cluster_ended_it(pod: LaunchedPod) -> str:
    words = f": {pod.message}" if pod.message else ""
    if pod.disruption is not None:
        return f"Kubernetes ended its pod on {pod.node} ({pod.disruption})"
    if pod.reason == "Evicted":
        return f"Kubernetes evicted its pod from {pod.node}{words}"
    if pod.reason:
        return f"its pod on {pod.node} has ended ({pod.reason}{words})"
    if pod.deleted_at is not None:
        return f"its pod {pod.namespace}/{pod.name} was deleted, and not by Corral"
    return f"node {pod.node} lost its pod, and its end is unknown ({pod.ended_reason or 'no exit code'})"


def _why_it_never_ran(pod: LaunchedPod) -> str:
    if pod.ending == NEVER_RAN:
        return pod.ending_reason or "it was given up before it began"
    words = f": {pod.message}" if pod.message else ""
    if pod.reason:
        return f"node {pod.node} did not accept its pod ({pod.reason}{words})"
    if pod.deleted_at is not None:
        return f"its pod {pod.namespace}/{pod.name} was deleted before it began, and not by Corral"
    return f"its pod ended before its container began{words}"
