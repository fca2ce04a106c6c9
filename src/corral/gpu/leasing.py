"""Leases: GPUs for this process alone. Two leases never have the same GPU."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from corral.client import Client, JobHandle, Jobs, NoServer
from corral.client.submitting.arguments import number, optional, text, whole
from corral.core.model.errors import BackendFailed, Conflict, CorralError, Refused
from corral.core.model.units import count_of
from corral.gpu import lock_files
from corral.gpu.monitor import get_gpu_monitor
from corral.gpu.reading import GPUInfo, by_score, own_job, uuids_of_driver
from corral.gpu.this_host import node_here
from corral.vendors.registry import vendor_named, vendors

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.5


class LeaseTimedOut(CorralError, TimeoutError):
    """The GPUs did not become available in time; the message says why."""


class Lease:
    """GPUs that only this process uses until `release`, the end of the `with` block, or its own end.

    Attributes:
        uuids: the UUIDs of the GPUs.
        indices: the indices of the same GPUs in nvidia-smi.
        env: the variables with which a child process sees only these GPUs: `{**os.environ, **lease.env}`.
        job_id: the reservation on the server; None for a lease by lock files.
    """

    def __init__(
        self, gpus: Mapping[str, int], give_back: Callable[[], None], job_id: str | None = None, vendor: str = ""
    ) -> None:
        self.uuids = tuple(gpus)
        self.indices = tuple(gpus.values())
        self.job_id = job_id
        self._vendor = vendor_named(vendor)
        self._give_back: Callable[[], None] | None = give_back
        self._pid = os.getpid()
        self._replaced: dict[str, str | None] | None = None

    def __repr__(self) -> str:
        return f"<Lease of GPU {', '.join(map(str, self.indices))}{'' if self._give_back else ', released'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    @property
    def env(self) -> dict[str, str]:
        return dict(self._vendor.visible(self.uuids))

    def apply(self) -> None:
        """Put `env` into this process's own environment until the release.

        CUDA reads it once: call this before anything in the process uses a GPU.
        """
        if self._replaced is None:
            self._replaced = {name: os.environ.get(name) for name in self.env}
        os.environ.update(self.env)

    def release(self) -> None:
        """Give the GPUs back. A second call does nothing; neither does a call in a forked child."""
        give_back, self._give_back = self._give_back, None
        if give_back is None or os.getpid() != self._pid:
            return
        for name, value in (self._replaced or {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        give_back()


def lease(
    gpus: int = 1,
    *,
    min_memory_mb: int | None = None,
    timeout_seconds: float | None = 300.0,
    name: str | None = None,
) -> Lease:
    """Take this many GPUs, all or none, each with at least `min_memory_mb` of memory in total.

    >>> with lease(gpus=2) as held:                                   # doctest: +SKIP
    ...     subprocess.run(["python", "train.py"], env={**os.environ, **held.env})

    If a Corral server has this host as a node, under any name, the lease waits in its queue as a reservation called
    `name`, on this node. The server frees it when this process ends. Otherwise the lease takes a lock file for each
    GPU. Locks exclude every other lease on this host, but not programs that use no lease; GPUs with processes on
    them are not taken. Inside a Corral job the lease is one of the job's own GPUs, against other leases
    in that job.

    This process's environment stays as it is; `Lease.env` and `Lease.apply` are there to change it.

    Raises LeaseTimedOut after `timeout_seconds` (None waits without limit), and BackendFailed if no GPU can be seen.
    Raises Refused if the host can never have this many, or if it is several nodes of the server and the GPUs that
    the driver shows do not identify the right one.
    """
    gpus = whole(gpus, "gpus")
    if gpus < 1:
        raise Refused(f"gpus: {gpus!r} is not a number of GPUs to lease; it must be 1 or more", field="gpus")
    min_memory_mb = optional(whole, min_memory_mb, "min_memory_mb", "8000")
    name = optional(text, name, "name", "'notebook'")
    deadline = None
    if timeout_seconds is not None:
        deadline = time.monotonic() + number(timeout_seconds, "timeout_seconds", "300", infinite=True)
    held = _lease_from_server(gpus, min_memory_mb, deadline, name) if own_job() is None else None
    return held or _lease_by_lock_files(gpus, min_memory_mb, deadline)


def _lease_from_server(gpus: int, min_memory_mb: int | None, deadline: float | None, name: str | None) -> Lease | None:
    """A reservation on this host's node of its server; None if no server answers, or this host is no node of it."""
    with Client() as client:
        min_memory = None if min_memory_mb is None else f"{min_memory_mb}M"
        try:
            node = node_here(client, uuids_of_driver)
            if node is None:
                return None
            handle = client.reserve(owner_pid=os.getpid(), gpus=gpus, min_memory=min_memory, name=name, node=node)
        except NoServer:
            return None
        try:
            uuids = _wait_until_allocated(handle, gpus, deadline)
            rows = {row.uuid: row for row in client.devices.list() if row.uuid in uuids}
        except BaseException:
            _cancel(handle.id)
            raise
    indices = {uuid: row.index for uuid, row in rows.items() if row.index is not None}
    held = {uuid: indices.get(uuid, -1) for uuid in uuids}
    return Lease(held, partial(_give_back, handle.id), handle.id, next((row.vendor for row in rows.values()), ""))


def _wait_until_allocated(handle: JobHandle, gpus: int, deadline: float | None) -> tuple[str, ...]:
    """The devices of the reservation, once it runs. Waits for a server that restarts meanwhile."""
    pause_s = _FIRST_PAUSE_S
    why = "the server has not answered since it was asked"
    while True:
        try:
            row = handle.row()
            if row.phase == "RUNNING":
                return row.devices
            if row.ended:
                raise BackendFailed(f"the reservation of {count_of(gpus, 'GPU')} ended: {row.reason or row.phase}")
            if deadline is not None and time.monotonic() >= deadline:
                why = handle.why().reason
        except NoServer as error:
            logger.debug("waiting for the server: %s", error)
        if deadline is not None and time.monotonic() >= deadline:
            raise LeaseTimedOut(f"{count_of(gpus, 'GPU')} could not be leased in time: {why}")
        pause_s = _pause(pause_s, deadline)


def _give_back(job_id: str) -> None:
    _end(job_id, Jobs.release)


def _cancel(job_id: str) -> None:
    _end(job_id, Jobs.cancel)


def _end(job_id: str, how: Callable[[Jobs, str], object]) -> None:
    try:
        with Client() as client:
            how(client.jobs, job_id)
    except Conflict:
        # It has ended by itself.
        return
    except CorralError as error:
        logger.warning("reservation %s was not given back (%s); the server frees it with this process", job_id, error)


def _lease_by_lock_files(gpus: int, min_memory_mb: int | None, deadline: float | None) -> Lease:
    pause_s = _FIRST_PAUSE_S
    while True:
        reasons, free = _candidates(gpus, min_memory_mb)
        held = _lock(free, gpus)
        if held is not None:
            locks = [lock for _, lock in held]
            return Lease({gpu.uuid: gpu.index for gpu, _ in held}, partial(_unlock, locks), vendor=held[0][0].vendor)
        if deadline is not None and time.monotonic() >= deadline:
            raise LeaseTimedOut(f"{count_of(gpus, 'GPU')} could not be leased in time: {'; '.join(reasons)}")
        pause_s = _pause(pause_s, deadline)


def _own_devices() -> list[str]:
    """The GPUs of the job that this process is of."""
    seen = (os.environ.get(vendor.variable, "") for vendor in vendors().values())
    return next(filter(None, seen), "").split(",")


def _candidates(gpus: int, min_memory_mb: int | None) -> tuple[list[str], list[GPUInfo]]:
    """Return (why other GPUs are not available, the available GPUs unless they are locked, best first)."""
    snapshot = get_gpu_monitor().query_gpus(use_cache=False)
    if snapshot is None:
        raise BackendFailed("no GPU can be leased: this machine has none that can be read")
    own = _own_devices() if own_job() is not None else None
    large = [gpu for gpu in snapshot.gpus if min_memory_mb is None or (gpu.memory_total_mb or 0) >= min_memory_mb]
    seen = [gpu for gpu in large if own is None or gpu.uuid in own]
    # A process uses the GPUs of one maker.
    usable = [gpu for gpu in seen if gpu.vendor == seen[0].vendor]
    if len(usable) < gpus:
        whose = "this machine" if own is None else "this job"
        size = "" if min_memory_mb is None else f" with {min_memory_mb} MB"
        raise Refused(f"gpus: {whose} has {count_of(len(usable), 'GPU')}{size}; {gpus} cannot be leased", field="gpus")
    reasons, free = [], []
    for gpu in by_score(usable):
        reason = _why_not(gpu, in_own_job=own is not None)
        if reason is None:
            free.append(gpu)
        reasons.append(f"GPU {gpu.index}: {reason or 'leased by another process'}")
    return reasons, free


def _why_not(gpu: GPUInfo, *, in_own_job: bool) -> str | None:
    if gpu.taken is not None or in_own_job:
        return gpu.taken
    if not gpu.readable or gpu.process_count is None:
        return "it cannot be read"
    return f"in use by {count_of(gpu.process_count, 'other program')}" if gpu.process_count else None


def _lock(candidates: list[GPUInfo], gpus: int) -> list[tuple[GPUInfo, int]] | None:
    """Lock the first `gpus` that can be locked. None, with none locked, if there are too few."""
    held: list[tuple[GPUInfo, int]] = []
    for gpu in candidates:
        lock = lock_files.take(gpu.uuid)
        if lock is not None:
            held.append((gpu, lock))
        if len(held) == gpus:
            return held
    _unlock([lock for _, lock in held])
    return None


def _unlock(locks: list[int]) -> None:
    for lock in locks:
        lock_files.give_back(lock)


def _pause(pause_s: float, deadline: float | None) -> float:
    """Sleep, but not past the deadline. Returns how long to sleep the next time."""
    left_s = pause_s if deadline is None else max(0.0, deadline - time.monotonic())
    time.sleep(min(pause_s, left_s))
    return min(2 * pause_s, _LONGEST_PAUSE_S)
