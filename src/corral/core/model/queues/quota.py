"""Quotas: how much a job counts, against which quotas it counts, and how much of them is used and left."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.core.model.jobs.job import Job
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI

UNLIMITED = Quota()


class Used(NamedTuple):
    """The amounts that count against a quota: started jobs, devices (also shared), milli-GPU, granted MiB.

    `power_mw` is what is missing in the site's power budget, or released for it. No quota has such an amount.
    """

    running: int = 0
    devices: int = 0
    milli: int = 0
    memory_mib: int = 0
    power_mw: int = 0

    def plus(self, other: "Used", sign: int = 1) -> "Used":
        """The sum, or with `sign` -1 the difference."""
        running, devices, milli, memory_mib, power_mw = other
        return Used(
            self[0] + sign * running,
            self[1] + sign * devices,
            self[2] + sign * milli,
            self[3] + sign * memory_mib,
            self[4] + sign * power_mw,
        )


NOTHING = Used()


class Scope(NamedTuple):
    """The owner of a sum of usage: ("user", "alice"), ("project", "nlp"), ("queue", "night"), ("array", "17")."""

    kind: str
    name: str


SITE = Scope("site", "")


def ancestry(queues: Mapping[str, Queue], name: str) -> tuple[str, ...]:
    """The queue and those above it, the nearest first; each once, even if a queue is its own ancestor."""
    chain = [name]
    while (queue := queues.get(chain[-1])) is not None and queue.parent and queue.parent not in chain:
        chain.append(queue.parent)
    return tuple(chain)


def is_circular(queues: Mapping[str, Queue], name: str) -> bool:
    """Whether the queues above this one form a circle."""
    top = queues.get(ancestry(queues, name)[-1])
    return top is not None and bool(top.parent)


def siblings(queues: Mapping[str, Queue], queue: Queue) -> list[Queue]:
    """The other queues below the same parent: those that may lend to it."""
    if not queue.parent:
        return []
    return [other for other in queues.values() if other.parent == queue.parent and other.name != queue.name]


def quotas_of(
    queues: Mapping[str, Queue],
    projects: Mapping[str, Project],
    limits: Limits,
    *,
    user: str,
    project: str,
    queue: str,
) -> Iterator[tuple[Scope, Quota]]:
    """Every quota that a job of this user, project and queue counts against."""
    yield Scope("user", user), limits.of_user
    if project in projects:
        yield Scope("project", project), projects[project].quota
    for name in ancestry(queues, queue):
        if name in queues:
            yield Scope("queue", name), queues[name].quota


def scopes_of(job: Job, queues: Mapping[str, Queue]) -> Iterator[Scope]:
    """The scopes whose usage includes the job, the widest first."""
    yield SITE
    yield Scope("user", job.spec.user)
    yield Scope("project", job.spec.project)
    for queue in ancestry(queues, job.spec.queue):
        yield Scope("queue", queue)
    if job.array_id is not None:
        yield Scope("array", job.array_id)


@dataclass(slots=True)
class QuotaUse:
    """The usage per scope, updated job by job; `used` has no scope without usage."""

    queues: Mapping[str, Queue]
    used: dict[Scope, Used] = field(default_factory=dict)

    def count(self, job: Job, used: Used, sign: int) -> None:
        """Count this usage of the job from now on (`sign` 1), or no longer (-1)."""
        for scope in scopes_of(job, self.queues):
            left = self.used.get(scope, NOTHING).plus(used, sign)
            if left == NOTHING:
                self.used.pop(scope, None)
            else:
                self.used[scope] = left


def lendable_milli(queues: Mapping[str, Queue], queue: Queue) -> int:
    """The most that the queue can ever borrow: all shares of the queues beside it, up to its own limit."""
    most = queue.quota.borrow_milli or 0
    return min(most, sum(other.quota.share_milli or 0 for other in siblings(queues, queue))) if most else 0


def borrowable_milli(queues: Mapping[str, Queue], queue: Queue, used: Callable[[Scope], Used]) -> int:
    """The milli-GPU that the queue may borrow now: the unused shares of the queues beside it, up to its own limit."""
    if not queue.quota.borrow_milli:
        return 0
    idle = borrowed = 0
    for other in siblings(queues, queue):
        left = (other.quota.share_milli or 0) - used(Scope("queue", other.name)).milli
        idle += max(0, left)
        borrowed += max(0, -left)
    return max(0, min(queue.quota.borrow_milli, idle - borrowed))


def excess(used: Used, quota: Quota, borrowable_milli: int = 0) -> Used:
    """The amounts by which this usage exceeds the quota."""

    def over(amount: int, most: int | None) -> int:
        return 0 if most is None else max(0, amount - most)

    share_milli = None if quota.share_milli is None else quota.share_milli + borrowable_milli
    return Used(
        over(used.running, quota.running),
        over(used.devices, quota.devices),
        over(used.milli, share_milli),
        over(used.memory_mib, quota.memory_mib),
    )


def left_milli(used: Used, quota: Quota, borrowable_milli: int = 0, *, device_mib: int = 0) -> int | None:
    """The part of this quota that one more job may have: milli-GPU in whole quanta, None for no limit.

    `device_mib` is the memory of a device, of which a share counts its part; 0 if unknown.
    """
    if quota.running is not None and used.running >= quota.running:
        return 0
    rooms = []
    if quota.share_milli is not None:
        rooms.append(quota.share_milli + borrowable_milli - used.milli)
    if quota.devices is not None:
        rooms.append((quota.devices - used.devices) * MILLI_PER_DEVICE)
    if quota.memory_mib is not None and device_mib:
        # The largest share whose memory, rounded down, is at most `left_mib`.
        left_mib = quota.memory_mib - used.memory_mib
        rooms.append(((left_mib + 1) * MILLI_PER_DEVICE - 1) // device_mib)
    return max(0, min(rooms) // SHARE_QUANTUM_MILLI * SHARE_QUANTUM_MILLI) if rooms else None


def counted_milli(
    share_milli: int,
    *,
    memory_mib: int | None = None,
    device_mib: int | None = None,
    cores_percent: int | None = None,
    slice_milli: int | None = None,
) -> int:
    """The milli-GPU that a part of one device counts as: the largest of its parts of share, memory and cores.

    The result is in whole quanta. A job with most of a device's memory leaves no use for the rest, even if its share is
    small. If the device's memory is not known, granted memory does not count. A slice counts as its part of the device,
    `slice_milli`.
    """
    if slice_milli is not None:
        return slice_milli
    quanta = 0
    if memory_mib is not None and device_mib:
        quanta = -(-memory_mib * MILLI_PER_DEVICE // (device_mib * SHARE_QUANTUM_MILLI))
    cores_milli = (cores_percent or 0) * MILLI_PER_DEVICE // 100
    return min(MILLI_PER_DEVICE, max(share_milli, quanta * SHARE_QUANTUM_MILLI, cores_milli))


def least_device_mib(memory_mib: int, most_milli: int) -> int:
    """The least memory of a device on which `memory_mib` count as at most `most_milli`."""
    quanta = max(1, most_milli // SHARE_QUANTUM_MILLI)
    return -(-memory_mib * MILLI_PER_DEVICE // (quanta * SHARE_QUANTUM_MILLI))
