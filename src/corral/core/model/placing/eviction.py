"""A job was stopped for the sake of others: for which, by which rule, and what it lost by that."""

from dataclasses import dataclass
from enum import StrEnum


class EvictionRule(StrEnum):
    """By which rule a job may be stopped for others.

    PRIORITY: its queue preempts. QUEUE_RECLAIM: a queue takes back what it had lent. POOL_RECLAIM: a pool does.
    TIME_SLICE: the job that is stopped had its quantum. FASTER_GPUS: it moves itself. IDLE: it did not use its GPUs.
    MEMORY: it took more memory than it was granted. DRAIN: its node is to be empty.
    """

    PRIORITY = "priority"
    QUEUE_RECLAIM = "queue-reclaim"
    POOL_RECLAIM = "pool-reclaim"
    TIME_SLICE = "time-slice"
    FASTER_GPUS = "faster-gpus"
    IDLE = "idle"
    MEMORY = "memory"
    DRAIN = "drain"

    @property
    def reclaims(self) -> bool:
        """Whether what was lent is taken back."""
        return self in (EvictionRule.QUEUE_RECLAIM, EvictionRule.POOL_RECLAIM)


@dataclass(frozen=True, slots=True)
class Eviction:
    """One launch of a job that was asked to stop for others.

    Attributes:
        for_job_id: the job that it was stopped for, None where that is nobody in particular.
        lender: the queue or the pool that takes back.
        reason: the same for a person.
        at: when it was asked to stop, Unix seconds.
        allocation_id: the launch that was stopped.
        saves: it got its checkpoint signal first, so that what it did before need not be lost.
        ran_s: how long the launch had run at its end, None before.
        lost_s: how much of that is lost; where it `saves`, only what it ran after the signal.
    """

    rule: EvictionRule
    for_job_id: str | None
    reason: str
    at: float
    allocation_id: str
    lender: str | None = None
    saves: bool = False
    ran_s: float | None = None
    lost_s: float | None = None
