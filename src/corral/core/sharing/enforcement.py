"""The enforcement of a job's grants. Pure: nodes report in their inventory what they enforce."""

from collections.abc import Iterable, Mapping

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Enforcement, HostMeans, Level, Means
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.placing.allocation import Placement
from corral.core.model.view import View

_WEAKEST_FIRST = (Level.ADVISORY, Level.GUARDED, Level.ENFORCED)

_OF_MEANS: Mapping[Means, tuple[Level, Level]] = {
    Means.EXCLUSIVE: (Level.ENFORCED, Level.ENFORCED),
    Means.MIG: (Level.ENFORCED, Level.ENFORCED),
    Means.MPS: (Level.ENFORCED, Level.ENFORCED),
    # With time slices the driver enforces nothing; the memory guard watches what jobs use.
    Means.TIMESLICE: (Level.GUARDED, Level.ADVISORY),
}
"""The enforcement of a job's memory and compute, by the means of sharing."""

_NOT_GUARDED = (Level.ADVISORY, Level.ADVISORY)
"""The levels for time slices in a cluster: the memory guard runs on hosts only."""


def enforcement(job: Job, placement: Placement, view: View) -> Enforcement | None:
    """The enforcement of this placement: the weakest level among its devices and nodes.

    None if it has neither devices nor a part of a host. If Corral does not start the work, the host enforces nothing.
    """
    nodes = (view.nodes[member.node] for member in placement.members if member.node in view.nodes)
    devices = {device.uuid: device for node in nodes for device in node.devices}
    levels = [_levels(devices[grant.uuid], grant.share_milli) for grant in placement.grants if grant.uuid in devices]
    hosts = [(member, _host_means(job, view, member.node)) for member in placement.members]
    found = Enforcement(
        memory=_weakest(memory for memory, _ in levels),
        compute=_weakest(compute for _, compute in levels),
        cpus=_weakest(host.cpus for member, host in hosts if member.cpu_milli),
        host_memory=_weakest(host.memory for member, host in hosts if member.host_memory_mib),
    )
    return None if found == Enforcement() else found


def _levels(device: Device, share_milli: int) -> tuple[Level, Level]:
    means = device.held_by(share_milli)
    return _NOT_GUARDED if device.replica and means is Means.TIMESLICE else _OF_MEANS[means]


def _host_means(job: Job, view: View, name: str) -> HostMeans:
    node = view.nodes.get(name)
    return HostMeans() if node is None or job.spec.kind is not JobKind.RUN else node.host_means


def _weakest(levels: Iterable[Level]) -> Level | None:
    return min(levels, key=_WEAKEST_FIRST.index, default=None)
