"""The value kept of a pod that runs a launch. Users and nodes write to pods, so their text is untrusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.runs.launch import checked_launch_id
from corral.engines.kubernetes.cluster.objects import mapping, sequence, time_s
from corral.engines.kubernetes.pods.names import (
    CHECKPOINT_GRACE,
    ENDING,
    FINALIZER,
    LAUNCH,
    MEMBERS,
    NODE,
    REASON,
    TOMBSTONE,
)

_MOST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class LaunchedPod:
    """A pod of Corral's. Times are Unix seconds: `created_at` and `deleted_at` by the API server's clock, the others by
    the node's.

    Attributes:
        node: its node, or the node chosen for it; "" for a tombstone.
        launch_id: the launch that it runs; a `tombstone` keeps this launch from ever running.
        members: the number of members of its gang.
        checkpoint_grace_s: its time to save its work after SIGTERM; 0 if it did not ask for any.
        phase, reason, message: from the pod's status: "Running", "Evicted", ...
        waiting, waiting_message: why its container does not run yet: "ImagePullBackOff".
        exit_code, signal, ended_reason, ended_message: how its container ended; `exit_code` is None while it has not.
        unschedulable: why the cluster's scheduler finds no place for it; None if it found one or was not asked.
        disruption: the part of the cluster that ended it, and why, such as a preemption.
        ending, ending_reason: the phase in which Corral ends it, and why; "" if Corral does not end it.
        deleted_at: when its deletion is due at the latest; None if it was not deleted.
        grace_s: its grace period until then; 0 if nothing of it runs any more, as far as the cluster knows.
        held: whether Corral's finalizer keeps the object.
    """

    name: str
    namespace: str
    uid: str
    version: str
    launch_id: str
    node: str
    members: int
    checkpoint_grace_s: int
    tombstone: bool
    phase: str
    reason: str
    message: str
    waiting: str
    waiting_message: str
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    signal: int | None
    ended_reason: str
    ended_message: str
    unschedulable: str | None
    disruption: str | None
    ending: str
    ending_reason: str
    created_at: float | None
    deleted_at: float | None
    grace_s: int | None
    held: bool

    @property
    def has_run(self) -> bool:
        """Whether the pod's container has begun."""
        return self.started_at is not None or self.exit_code is not None

    @property
    def over(self) -> bool:
        """Whether nothing of the pod runs any more, or ever will."""
        done = self.exit_code is not None or self.phase in ("Succeeded", "Failed")
        return self.tombstone or done or (self.deleted_at is not None and self.grace_s == 0)


def keep(pod: Mapping[str, Any]) -> LaunchedPod | None:
    """Return the value kept of a Pod object, or None if it belongs to no launch."""
    metadata, spec, status = (mapping(pod.get(part)) for part in ("metadata", "spec", "status"))
    annotations = mapping(metadata.get("annotations"))
    try:
        launch_id = checked_launch_id(printable_text(annotations.get(LAUNCH)))
    except Refused:
        return None
    container = next(iter(sequence(status.get("containerStatuses"))), {})
    state = mapping(container.get("state"))
    waiting, running, ended = (mapping(state.get(part)) for part in ("waiting", "running", "terminated"))
    if not ended and not running:
        # A container that ran and waits again, as after a restart of its node, has ended: a job's container never
        # restarts.
        ended = mapping(mapping(container.get("lastState")).get("terminated"))
    conditions = {printable_text(one.get("type")): one for one in sequence(status.get("conditions"))}
    return LaunchedPod(
        name=printable_text(metadata.get("name")),
        namespace=printable_text(metadata.get("namespace")),
        uid=printable_text(metadata.get("uid")),
        version=printable_text(metadata.get("resourceVersion")),
        launch_id=launch_id,
        node=printable_text(spec.get("nodeName")) or printable_text(annotations.get(NODE)),
        members=_count(annotations.get(MEMBERS), 1),
        checkpoint_grace_s=_count(annotations.get(CHECKPOINT_GRACE), 0),
        tombstone=TOMBSTONE in mapping(metadata.get("labels")),
        phase=printable_text(status.get("phase")),
        reason=printable_text(status.get("reason")),
        message=printable_text(status.get("message")),
        waiting=printable_text(waiting.get("reason")),
        waiting_message=printable_text(waiting.get("message")),
        started_at=time_s(running.get("startedAt") or ended.get("startedAt")),
        ended_at=time_s(ended.get("finishedAt")),
        exit_code=_code(ended.get("exitCode")) if ended else None,
        signal=_code(ended.get("signal")) or None,
        ended_reason=printable_text(ended.get("reason")),
        ended_message=printable_text(ended.get("message")),
        unschedulable=_refusal(mapping(conditions.get("PodScheduled"))),
        disruption=_disruption(mapping(conditions.get("DisruptionTarget"))),
        ending=printable_text(annotations.get(ENDING)),
        ending_reason=printable_text(annotations.get(REASON)),
        created_at=time_s(metadata.get("creationTimestamp")),
        deleted_at=time_s(metadata.get("deletionTimestamp")),
        grace_s=_code(metadata.get("deletionGracePeriodSeconds")),
        held=FINALIZER in _texts(metadata.get("finalizers")),
    )


def _refusal(scheduled: Mapping[str, Any]) -> str | None:
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return None
    return printable_text(scheduled.get("message")) or "Unschedulable"


def _disruption(target: Mapping[str, Any]) -> str | None:
    if target.get("status") != "True":
        return None
    return f"{printable_text(target.get('reason'))}: {printable_text(target.get('message'))}".strip(": ") or None


def printable_text(value: Any) -> str:
    """Return the text as one printable line of limited length."""
    if not isinstance(value, str):
        return ""
    line = " ".join(value[: 4 * _MOST_TEXT].split())
    return "".join(c if c.isprintable() else "?" for c in line)[:_MOST_TEXT]


def _code(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _count(value: Any, otherwise: int) -> int:
    plain = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 6
    return int(value) if plain else otherwise


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
