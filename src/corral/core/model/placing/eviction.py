"""Evictions: a job was stopped for others. The record has the rule, the other job, and the lost time."""

from dataclasses import dataclass
from enum import StrEnum


class EvictionRule(StrEnum):
    """The rule by which a job is stopped for others.

    PRIORITY: its queue preempts. QUEUE_RECLAIM: a queue takes back capacity that it had lent. POOL_RECLAIM: a pool
    does.
    TIME_SLICE: the stopped job had used its quantum. FASTER_GPUS: it moves to faster GPUs. IDLE: it did not use its
    GPUs.
    MOVE: it moves to another place, so that another job starts or a node is empty.
    MEMORY: it took more memory than it was granted. DRAIN: its node is being emptied. FAULT: one of its devices fell
    sick.
    """

    PRIORITY = "priority"
    QUEUE_RECLAIM = "queue-reclaim"
    POOL_RECLAIM = "pool-reclaim"
    TIME_SLICE = "time-slice"
    FASTER_GPUS = "faster-gpus"
    IDLE = "idle"
    MEMORY = "memory"
    DRAIN = "drain"
    MOVE = "move"
    FAULT = "fault"

    @property
    def reclaims(self) -> bool:
        """Whether a lender takes back its capacity."""
        return self in (EvictionRule.QUEUE_RECLAIM, EvictionRule.POOL_RECLAIM)


@dataclass(frozen=True, slots=True)
class Eviction:
    """One launch of a job that was asked to stop for others.

    Attributes:
        for_job_id: the job that it was stopped for, None if there is no particular one.
        lender: the queue or the pool that takes back capacity.
        reason: the reason for a person.
        at: when it was asked to stop, Unix seconds.
        allocation_id: the launch that was stopped.
        saves: it got its checkpoint signal first, so earlier work need not be lost.
        ran_s: the run time of the launch at its end, None before.
        lost_s: how much of it is lost: the time after the last whole checkpoint that is known, and if it `saves`, only
            the time after the signal.
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
