"""Moving in and out of devices: what the means of sharing needs on the machine, and the witness that a job leaves.

The ledger is the truth about who holds what. Each job's `resource.txt` says the same beside it, for tools that read
such files, and is compared with the ledger at boot and on demand.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from corral.control.worker_queues import WorkerQueues
from corral.model.allocation import Allocation, Grant, Placement
from corral.model.device import Device
from corral.model.errors import BackendFailed, CorralError
from corral.model.job import Job, JobKind
from corral.model.means import Enforcement, HostMeans, Level, Means
from corral.model.tenant import Tenant
from corral.model.units import MILLI_PER_DEVICE
from corral.model.view import View
from corral.sharing.alloc_map import disagreements
from corral.sharing.driver import SharingDriver
from corral.sharing.resource_txt import resource_file
from corral.sharing.scratch import drop, left, put, remove, scan, set_aside

log = logging.getLogger(__name__)

_WEAKEST = (Level.ADVISORY, Level.GUARDED, Level.ENFORCED)


class DeviceSetup:
    """Prepares devices for their tenants through the drivers of their means, and keeps the resource files.

    A share is held to by its device's means; whoever has a device whole has it exclusively, whatever its means. What
    takes NVIDIA's programs is done on threads of its own, in order for each device.
    """

    def __init__(self, drivers: Mapping[Means, SharingDriver], scratch: Path, host: HostMeans | None = None) -> None:
        self._drivers = drivers
        self._host = host or HostMeans()
        self._scratch = scratch
        self._chown = os.geteuid() == 0
        self._prepared: dict[str, tuple[Device, SharingDriver]] = {}
        self._entering: dict[str, list[Future[None]]] = {}
        self._queues = WorkerQueues()
        self._placing = threading.Lock()

    def close(self) -> None:
        """End the threads; devices stay as they are."""
        self._queues.close()

    def enter(self, job: Job, allocation: Allocation, view: View, again: Callable[[], None]) -> bool:
        """Before the launch: devices made ready, then the resource file; whether that is done.

        Where it is not, `again` is called, on another thread, when it is time to ask again. Raises BackendFailed; may
        be repeated.
        """
        deeds = self._entering.get(allocation.id)
        if deeds is None:
            deeds = self._entering[allocation.id] = self._prepare(allocation, view)
            for deed in deeds:
                deed.add_done_callback(lambda _: again())
        if not all(deed.done() for deed in deeds):
            return False
        del self._entering[allocation.id]
        for deed in deeds:
            deed.result()
        self._write(job, allocation)
        return True

    def _prepare(self, allocation: Allocation, view: View) -> list["Future[None]"]:
        """Make the devices ready, or begin to. Raises BackendFailed."""
        deeds = []
        for grant in allocation.placement.grants:
            found = view.device(grant.uuid)
            if found is None:
                raise BackendFailed(f"{grant.uuid} is gone; another device is looked for")
            node, device = found
            driver = self._driver(device, grant.share_milli)
            whole = view.device(device.parent_uuid or "")
            tenants = _tenants(view, grant.uuid, besides=allocation.id)
            newcomer = _tenant(view, allocation, grant)
            refused = driver.refusal(node, device if whole is None else whole[1], tenants, newcomer)
            if refused is not None:
                raise BackendFailed(f"{refused}; another device is looked for")
            self._prepared[device.uuid] = (device, driver)
            if driver.slow:
                deeds.append(self._queues.put(device.uuid, partial(driver.prepare, device)))
            else:
                driver.prepare(device)
        return deeds

    def leave(self, allocation_id: str, job_id: str, view: View) -> None:
        """After the end: the resource file is removed, and devices without a tenant are released."""
        self._entering.pop(allocation_id, None)
        job = view.jobs.get(job_id)
        if job is None or job.allocation_id not in view.allocations:
            self._attempt(partial(drop, self._scratch, job_id))
        for uuid in [uuid for uuid in self._prepared if uuid not in view.holders]:
            self._release(*self._prepared.pop(uuid))

    def tidy(self, job_id: str, view: Callable[[], View]) -> None:
        """Remove what the job left in its scratch directory, unless it is to run, or runs. Raises BackendFailed."""
        with self._placing:
            if job_id in view().jobs:
                return
            aside = set_aside(self._scratch, job_id)
        if aside is not None:
            remove(self._scratch, aside)

    def leftovers(self, view: Callable[[], View]) -> list[Callable[[], None]]:
        """After a boot: what is to be done so that nothing stays of jobs that a former server did not tidy up after."""
        kernels, aside = left(self._scratch)
        live = view().jobs
        return [
            *(partial(self.tidy, job_id, view) for job_id in kernels if job_id not in live),
            *(partial(remove, self._scratch, name) for name in aside),
        ]

    def environment(self, allocation: Allocation, view: View) -> tuple[tuple[str, str], ...]:
        """Variables that the means of sharing adds for a job."""
        devices = _devices(view)
        variables: dict[str, str] = {}
        for grant in allocation.placement.grants:
            device = devices.get(grant.uuid)
            if device is not None:
                tenant = _tenant(view, allocation, grant)
                variables.update(self._driver(device, grant.share_milli).environment(device, tenant))
        return tuple(sorted(variables.items()))

    def enforcement(self, job: Job, placement: Placement, view: View) -> Enforcement | None:
        """What holds a job to this placement: of devices the weakest that any offers, of the host what was asked for.

        None when it has neither. Work that Corral does not start is held to nothing of the host.
        """
        host = self._host if job.spec.kind is JobKind.RUN else HostMeans()
        members = placement.members
        cpus = host.cpus if any(member.cpu_milli for member in members) else None
        host_memory = host.memory if any(member.host_memory_mib for member in members) else None
        devices = _devices(view)
        found = [
            self._driver(devices[grant.uuid], grant.share_milli).enforcement()
            for grant in placement.grants
            if grant.uuid in devices
        ]
        memory = min((one.memory for one in found if one.memory), key=_WEAKEST.index, default=None)
        compute = min((one.compute for one in found if one.compute), key=_WEAKEST.index, default=None)
        if (memory, compute, cpus, host_memory) == (None, None, None, None):
            return None
        return Enforcement(memory, compute, cpus, host_memory)

    def recover(self, view: View) -> tuple[str, ...]:
        """After a boot: take over what a former server prepared, release what nobody has; then as `rescan`."""
        devices = _devices(view)
        for uuid, allocation_ids in sorted(view.holders.items()):
            for allocation_id in allocation_ids:
                for grant in view.allocations[allocation_id].placement.grants:
                    if grant.uuid == uuid and uuid in devices:
                        self._prepared[uuid] = (devices[uuid], self._driver(devices[uuid], grant.share_milli))
        for uuid, device in sorted(devices.items()):
            if uuid not in view.holders and device.means is Means.MPS:
                self._release(device, self._drivers[Means.MPS])
        return self.rescan(view)

    def rescan(self, view: View) -> tuple[str, ...]:
        """Compare the resource files with the ledger: what is amiss, a sentence each; the ledger counts.

        Files that are missing or differ are written again, those of jobs that are over are removed.
        """
        found = scan(self._scratch) if self._scratch.is_dir() else None
        files = {} if found is None else dict(found.files)
        amiss = [] if found is None else [str(bad) for bad in found.bad]
        live = {allocation.job_id: allocation for allocation in view.allocations.values()}
        amiss += disagreements({job_id: _held_milli(held) for job_id, held in live.items()}, files)
        for job_id in sorted(files.keys() - live.keys()):
            self._attempt(partial(drop, self._scratch, job_id))
        for job_id, allocation in sorted(live.items()):
            job, file = view.jobs.get(job_id), files.get(job_id)
            if job is not None and (file is None or file.held_milli(with_slices=True) != _held_milli(allocation)):
                self._attempt(partial(self._write, job, allocation))
        return tuple(amiss)

    def _write(self, job: Job, allocation: Allocation) -> None:
        spec = job.spec
        members = allocation.placement.members
        file = resource_file(
            allocation.placement.grants,
            cpu_milli=sum(member.cpu_milli for member in members),
            host_memory_mib=sum(member.host_memory_mib for member in members),
            mig_profile=spec.request.mig_profile,
        )
        owner = (spec.uid, spec.gid) if self._chown and spec.uid is not None and spec.gid is not None else None
        with self._placing:
            put(self._scratch, job.id, file, owner)

    def _driver(self, device: Device, share_milli: int) -> SharingDriver:
        if device.mig_profile is None and share_milli == MILLI_PER_DEVICE:
            return self._drivers[Means.EXCLUSIVE]
        return self._drivers[device.means]

    def _release(self, device: Device, driver: SharingDriver) -> None:
        deed = partial(self._attempt, partial(driver.release, device))
        if driver.slow:
            self._queues.put(device.uuid, deed)
        else:
            deed()

    @staticmethod
    def _attempt(deed: Callable[[], None]) -> None:
        try:
            deed()
        except CorralError as error:
            log.warning("%s", error)


def _tenant(view: View, allocation: Allocation, grant: Grant) -> Tenant:
    job = view.jobs.get(allocation.job_id)
    cores = None if job is None else job.spec.request.cores_percent
    return Tenant(allocation.job_id, allocation.user, grant, cores, alone=len(allocation.placement.grants) == 1)


def _tenants(view: View, uuid: str, *, besides: str) -> list[Tenant]:
    """Who has the device, in the order they came."""
    return [
        _tenant(view, view.allocations[allocation_id], grant)
        for allocation_id in view.holders.get(uuid, ())
        if allocation_id != besides
        for grant in view.allocations[allocation_id].placement.grants
        if grant.uuid == uuid
    ]


def _devices(view: View) -> dict[str, Device]:
    return {device.uuid: device for node in view.nodes.values() for device in node.devices}


def _held_milli(allocation: Allocation) -> dict[str, int]:
    held: dict[str, int] = {}
    for grant in allocation.placement.grants:
        held[grant.uuid] = held.get(grant.uuid, 0) + grant.share_milli
    return held
