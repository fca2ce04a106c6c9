"""Answers with what earlier jobs say of a job: its run time, and its use of GPUs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PredictedValue:
    """A value of the last `jobs` that were alike: their median, the most, and what nine of ten do not exceed."""

    jobs: int
    median: float
    p90: float
    most: float


@dataclass(frozen=True, slots=True)
class PredictedUse:
    """A prediction for a job from the last jobs of the same user and command. None where too few are known.

    Attributes:
        run_s: seconds from start to end, of jobs that succeeded.
        memory_mib: memory used of one GPU, the most of all its GPUs.
        used_pct: the part of its time in which its GPUs computed.
        starts_now_with: flags with less memory, with which it would start now. `node` is where.
    """

    run_s: PredictedValue | None = None
    memory_mib: PredictedValue | None = None
    used_pct: PredictedValue | None = None
    starts_now_with: str | None = None
    node: str | None = None
