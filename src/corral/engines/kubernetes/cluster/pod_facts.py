"""The facts that Corral keeps of a pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from corral.engines.kubernetes.cluster.amounts import NOTHING, Amounts, requests_of, shared
from corral.engines.kubernetes.cluster.objects import (
    Owner,
    annotations,
    labels,
    mapping,
    number,
    owner,
    sequence,
    text,
    time_s,
)
from corral.engines.kubernetes.cluster.quantities import BadQuantity
from corral.untrusted import Unread, guarded

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """One container of a pod, as its kubelet reports it.

    Attributes:
        name: its name within the pod.
        init: whether it is an init container.
        state: waiting, running or terminated.
        reason: one word of Kubernetes, such as ImagePullBackOff, OOMKilled, Completed.
        message: the message beside the reason.
        exit_code: its exit code, once it has terminated.
        signal: the signal that ended it, if its runtime reports it.
        started_at_s: seconds since 1970.
        finished_at_s: seconds since 1970.
        restarts: the number of restarts.
        ready: whether it passes its readiness probe.
    """

    name: str
    init: bool
    state: str
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at_s: float | None = None
    finished_at_s: float | None = None
    restarts: int = 0
    ready: bool = False


@dataclass(frozen=True, slots=True)
class PodCondition:
    """One condition of a pod, such as PodScheduled, Ready or DisruptionTarget."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod. Its times are the cluster's, whose clock may differ from ours.

    Attributes:
        namespace: its namespace.
        name: its name.
        uid: its UID; a pod that is deleted and made again gets another.
        labels: all of them.
        annotations: those that Corral reads.
        owner: its controller, such as a Job's ReplicaSet.
        deleting_at_s: when its grace period ends, once its deletion was requested; None before.
        node: the node to which it was bound; None before.
        scheduler: the name of the scheduler that has to bind it.
        priority: the priority of its PriorityClass.
        requests: the resources that it takes of its node.
        phase: Pending, Running, Succeeded, Failed or Unknown.
        reason: of its phase, one word of Kubernetes such as Evicted.
        message: the message beside the reason.
        conditions: all of them.
        containers: init containers first; empty before its kubelet has seen the pod.
        address: its IP address.
        started_at_s: when its kubelet accepted it.
        unreadable: why `requests` cannot be read; they are then zero, and its node counts as full. None if they can.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: Owner | None
    deleting_at_s: float | None
    node: str | None
    scheduler: str
    priority: int
    requests: Amounts
    phase: str
    reason: str | None
    message: str | None
    conditions: tuple[PodCondition, ...]
    containers: tuple[ContainerFacts, ...]
    address: str | None
    started_at_s: float | None
    unreadable: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the pod takes no resources of its node any more."""
        return self.phase in ENDED

    def condition(self, type_: str) -> PodCondition | None:
        return next((condition for condition in self.conditions if condition.type == type_), None)


def read_pod(item: Mapping[str, Any]) -> PodFacts:
    """Read a Pod object, which is untrusted text of its user, its kubelet and others."""
    metadata, spec, status = (mapping(item.get(part)) for part in ("metadata", "spec", "status"))
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    requests, unreadable = read_requests(spec, f"{namespace}/{name}")
    return PodFacts(
        namespace=intern(namespace),
        name=name,
        uid=str(metadata.get("uid") or ""),
        labels=labels(metadata),
        annotations=annotations(metadata),
        owner=owner(metadata),
        deleting_at_s=time_s(metadata.get("deletionTimestamp")),
        node=_interned(spec.get("nodeName")),
        scheduler=intern(str(spec.get("schedulerName") or "")),
        priority=number(spec.get("priority")) or 0,
        requests=requests,
        phase=intern(str(status.get("phase") or "Unknown")),
        reason=_interned(status.get("reason")),
        message=text(status.get("message")),
        conditions=tuple(_condition(condition) for condition in sequence(status.get("conditions"))),
        containers=(
            *(_container(part, init=True) for part in sequence(status.get("initContainerStatuses"))),
            *(_container(part, init=False) for part in sequence(status.get("containerStatuses"))),
        ),
        address=text(status.get("podIP")),
        started_at_s=time_s(status.get("startTime")),
        unreadable=unreadable,
    )


def read_requests(spec: Mapping[str, Any], pod: str) -> tuple[Amounts, str | None]:
    """Return the resources that a pod takes of its node, or zero and why they cannot be read. `pod` names it in the
    log.
    """

    def read() -> tuple[Amounts, str | None]:
        try:
            return shared(requests_of(spec)), None
        except BadQuantity as error:
            return NOTHING, f"its requests cannot be read: {error}"

    # Today's API servers reject such a pod; a later version may accept it.
    found = guarded(f"what pod {pod} requests", read)
    return (NOTHING, f"its requests {found}") if isinstance(found, Unread) else found


def _condition(written: Mapping[str, Any]) -> PodCondition:
    return PodCondition(
        intern(str(written.get("type") or "")),
        intern(str(written.get("status") or "Unknown")),
        _interned(written.get("reason")),
        _interned(written.get("message")),
    )


def _container(written: Mapping[str, Any], *, init: bool) -> ContainerFacts:
    states = mapping(written.get("state"))
    state = next((known for known in ("terminated", "running", "waiting") if known in states), "waiting")
    said = mapping(states.get(state))
    return ContainerFacts(
        name=intern(str(written.get("name") or "")),
        init=init,
        state=state,
        reason=_interned(said.get("reason")),
        message=text(said.get("message")),
        exit_code=number(said.get("exitCode")),
        signal=number(said.get("signal")) or None,
        started_at_s=time_s(said.get("startedAt")),
        finished_at_s=time_s(said.get("finishedAt")),
        restarts=number(written.get("restartCount")) or 0,
        ready=written.get("ready") is True,
    )


def _interned(value: object) -> str | None:
    found = text(value)
    return None if found is None else intern(found)
