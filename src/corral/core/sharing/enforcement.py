"""The enforcement of a job's grants. Pure: nodes report in their inventory what they enforce."""

from collections.abc import Iterable
from typing import NamedTuple

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Enforcement, HostMeans, Level, Means
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.placing.allocation import Grant, Placement
from corral.core.model.units import slot_milli
from corral.core.model.view import View

_WEAKEST_FIRST = (Level.ADVISORY, Level.HOOK, Level.GUARDED, Level.ENFORCED)

_ROOT = 0
AS_ROOT = "it runs as root, who can leave its cgroup"
_OF_SESSION = "only the commands that `corral run` starts in it are fenced"


class _Held(NamedTuple):
    """The levels at which a job is held to one grant; `reason` says why they are not those of the means."""

    memory: Level
    compute: Level
    reason: str | None = None


_ENFORCED = _Held(Level.ENFORCED, Level.ENFORCED)
_TIMESLICE = _Held(Level.GUARDED, Level.ADVISORY)
"""With time slices the driver enforces nothing; the memory guard watches what jobs use."""
_HOOK = _Held(Level.HOOK, Level.HOOK)
_NOT_GUARDED = _Held(Level.ADVISORY, Level.ADVISORY)
"""The levels for time slices in a cluster: the memory guard runs on hosts only."""


def enforcement(job: Job, placement: Placement, view: View) -> Enforcement | None:
    """The enforcement of this placement: the weakest level among its devices and nodes.

    None if it has neither devices nor a part of a host. If Corral does not start the work, the host enforces nothing.
    """
    hosts = [(member, _host_means(job, view, member.node)) for member in placement.members]
    held = [one for member, host in hosts for one in _of_devices(job, member.grants, host, _devices(view, member.node))]
    found = Enforcement(
        memory=_weakest(one.memory for one in held),
        compute=_weakest(one.compute for one in held),
        cpus=_weakest(host.cpus for member, host in hosts if member.cpu_milli),
        host_memory=_weakest(host.memory for member, host in hosts if member.host_memory_mib),
        reason=next((one.reason for one in held if one.reason is not None), None),
    )
    return None if found == Enforcement() else found


def _devices(view: View, name: str) -> dict[str, Device]:
    return {device.uuid: device for device in view.nodes[name].devices} if name in view.nodes else {}


def _of_devices(job: Job, grants: Iterable[Grant], host: HostMeans, devices: dict[str, Device]) -> Iterable[_Held]:
    return (_held(job, devices[grant.uuid], grant, host) for grant in grants if grant.uuid in devices)


def _held(job: Job, device: Device, grant: Grant, host: HostMeans) -> _Held:
    means = device.held_by(grant.share_milli)
    if means is Means.TIMESLICE:
        return _NOT_GUARDED if device.replica else _TIMESLICE
    if means is Means.HOOK:
        return _HOOK
    unfenced = _unfenced(job, host)
    if unfenced is not None:
        return _Held(Level.ADVISORY, Level.ADVISORY, f"no fence: {unfenced}")
    return _of_client(device, grant) if means is Means.MPS else _ENFORCED


def _of_client(device: Device, grant: Grant) -> _Held:
    """The levels of a daemon's client. The daemon holds it to a slot, and to less only by the job's own variables."""
    slots, loose = device.clients
    if loose is not None:
        return _Held(Level.ADVISORY, Level.ADVISORY, loose)
    if slots is None:
        return _ENFORCED
    slot_mib = None if device.memory_mib is None else device.memory_mib // slots
    whole = grant.share_milli >= slot_milli(slots)
    whole_memory = slot_mib is not None and (grant.memory_mib or 0) >= slot_mib
    levels = {True: Level.ENFORCED, False: Level.ADVISORY}
    reason = None if whole and whole_memory else f"it has less than one of {slots} equal slots"
    return _Held(levels[whole_memory], levels[whole], reason)


def _unfenced(job: Job, host: HostMeans) -> str | None:
    """Why the job can open devices of others; None if it cannot, as in a container or a pod."""
    if job.spec.kind is JobKind.RUN and (job.spec.container is not None or job.spec.pods):
        return None
    if host.unfenced is None and job.spec.uid == _ROOT:
        return AS_ROOT
    return host.unfenced


def _host_means(job: Job, view: View, name: str) -> HostMeans:
    node = view.nodes.get(name)
    host = HostMeans() if node is None else node.host_means
    match job.spec.kind:
        case JobKind.RUN:
            return host
        case JobKind.RESERVE:
            return HostMeans(unfenced=host.unfenced or _OF_SESSION)
        case JobKind.ADOPT:
            return HostMeans(unfenced="its processes are not started by Corral")


def _weakest(levels: Iterable[Level]) -> Level | None:
    return min(levels, key=_WEAKEST_FIRST.index, default=None)
