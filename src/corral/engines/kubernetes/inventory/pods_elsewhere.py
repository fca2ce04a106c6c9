"""Finds other schedulers that give out GPUs of the cluster: pods with GPUs that they bind. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corral.core.model.units import count_of
from corral.engines.kubernetes.cluster.objects import labels, mapping, text
from corral.engines.kubernetes.cluster.pod_facts import ENDED, read_requests
from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.shares.share_layers import has_devices

SERVER_LABEL = "corral.dev/server"
"""The label with the server's tag, on the pods that a server of Corral makes for jobs."""

SHOWN = 3
MOST_CHARACTERS = 63


@dataclass(frozen=True, slots=True)
class PodElsewhere:
    """A pod with GPUs that another scheduler binds.

    Attributes:
        scheduler: the name of that scheduler, for display.
        pod: its namespace and name.
        waits: whether it is not bound yet.
    """

    scheduler: str
    pod: PodName
    waits: bool


def other_scheduler(scheduler: str, marked: Mapping[str, str], own_scheduler: str, own_tag: str | None) -> str | None:
    """Return the name of the scheduler that binds this pod, or None if this server of Corral does.

    Pods of jobs are made with their node, so their schedulerName does not matter.
    """
    tag = marked.get(SERVER_LABEL)
    if tag is not None:
        return None if own_tag is None or tag == own_tag else f"another server of Corral, {tag[:MOST_CHARACTERS]}"
    return None if scheduler == own_scheduler else scheduler[:MOST_CHARACTERS] or "default-scheduler"


def keep_elsewhere(item: Mapping[str, Any], own_scheduler: str, own_tag: str) -> PodElsewhere | None:
    """Return a pod with GPUs that another scheduler binds. None if it has ended, has no GPUs, or this server binds
    it.
    """
    metadata, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
    who = other_scheduler(str(spec.get("schedulerName") or ""), labels(metadata), own_scheduler, own_tag)
    if who is None or mapping(item.get("status")).get("phase") in ENDED:
        return None
    pod = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    requests, _ = read_requests(spec, "/".join(pod))
    if not has_devices(requests):
        return None
    return PodElsewhere(who, pod, waits=text(spec.get("nodeName")) is None and "deletionTimestamp" not in metadata)


def warning_of(pods: Iterable[PodElsewhere], own_scheduler: str) -> str | None:
    """Return a warning about these pods with its remedy, or None if there are none."""
    found = sorted(pods, key=lambda one: (one.scheduler, one.pod))
    if not found:
        return None
    names = ", ".join(sorted({one.scheduler for one in found})[:SHOWN])
    examples = ", ".join("/".join(one.pod) for one in found[:SHOWN])
    what = "have GPUs or wait for some" if len(found) > 1 else "has GPUs or waits for some"
    return (
        f"{count_of(len(found), 'pod')} of another scheduler ({names}) {what}: {examples}"
        f"{' and others' if len(found) > SHOWN else ''}. Two schedulers that fill the same nodes can give a GPU away "
        "twice, and the kubelet then fails the pod that came later (UnexpectedAdmissionError). Give these pods "
        f"schedulerName: {own_scheduler}, or keep them on nodes of their own by taints"
    )
