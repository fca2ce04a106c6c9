"""Orders of a queue. An order gives each job a rank. The lowest rank goes first; of equal ranks, the first submitted.

An order is *settled* if the rank of a job never changes while it waits; its jobs are kept sorted. The ranks of other
orders are computed anew in each cycle. If similar jobs of one user never change their order among themselves (`alike`),
only the first job of each group is ranked anew, else every job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import floor, inf, isnan, log, sqrt
from types import MappingProxyType

from corral.core.model.jobs.job import Job
from corral.core.model.units import MILLI_PER_DEVICE

Rank = tuple[float, ...]

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S

AGE_LIMIT_S = 8 * DAY_S
"""Under `corral`, a job that has waited this long goes before all jobs that have not. It keeps jobs from starving."""

SHORTEST_S = 10.0
"""Shorter runs count as this long: the threshold of bounded slowdown (Feitelson et al., JSSPP 1997)."""

SERVICE_STEP = 4.0
"""Each level of attained service is this many times as wide as the one before; the first is three GPU-hours."""


def asked_gpus(job: Job) -> float:
    """GPUs that the job asks for in total, shares as fractions; for a CPU job its number of CPUs."""
    request = job.spec.request
    if request.devices:
        return request.total_milli / MILLI_PER_DEVICE
    return max(1.0, request.gang_size * request.cpu_milli / 1000)


@dataclass(frozen=True, slots=True)
class OrderContext:
    """The inputs of an order besides the job itself.

    Attributes:
        now: Unix seconds.
        estimate_s: returns the expected run time of a job in seconds; None if it is not known.
        served_s: returns the GPU-seconds that a job has had so far.
        gpus: returns the GPUs that a job will count as, at least; for a CPU job its number of CPUs.
        over_use: returns the GPU-seconds per weight used by the job's project, then by its user within the project.
    """

    now: float
    estimate_s: Callable[[Job], float | None] = lambda job: job.spec.time_limit_s
    served_s: Callable[[Job], float] = lambda _: 0.0
    over_use: Callable[[Job], Rank] = lambda _: ()
    gpus: Callable[[Job], float] = asked_gpus


@dataclass(frozen=True, slots=True)
class Order:
    """A named order."""

    name: str
    rank: Callable[[Job, OrderContext], Rank]
    settled: bool = False
    alike: bool = False


def fcfs(_job: Job, _context: OrderContext) -> Rank:
    """First come, first served."""
    return ()


def priority(job: Job, _context: OrderContext) -> Rank:
    """The lowest priority number first; among equals, first come."""
    return (job.spec.priority,)


def ageing_priority(step_s: float) -> Callable[[Job, OrderContext], Rank]:
    """Priority with ageing: `step_s` of waiting counts as one priority step. Settled: all jobs age at the same rate."""

    def rank(job: Job, _context: OrderContext) -> Rank:
        return (job.spec.priority * step_s + job.submitted_at,)

    return rank


def fair_share(job: Job, context: OrderContext) -> Rank:
    """Least use per weight first: among projects, then among the users of a project."""
    return (*context.over_use(job), job.spec.priority)


def shortest(job: Job, context: OrderContext) -> Rank:
    """Shortest job first; jobs without an estimate last."""
    return (_known(context.estimate_s(job)),)


def smallest_area(job: Job, context: OrderContext) -> Rank:
    """Least GPU-seconds first; jobs without an estimate last."""
    return (_known(context.estimate_s(job)) * context.gpus(job),)


def slowdown(job: Job, context: OrderContext) -> Rank:
    """Smith's rule (1956) for slowdown, where a job weighs 1 / its run time: run^2 x GPUs, here its square root."""
    return (max(_known(context.estimate_s(job)), SHORTEST_S) * sqrt(context.gpus(job)),)


def least_served(job: Job, context: OrderContext) -> Rank:
    """Least attained GPU-seconds first (least attained service)."""
    return (context.served_s(job),)


def service_level(served_s: float) -> int:
    """The level of attained service: its logarithm to the base SERVICE_STEP; 0 is below three GPU-hours."""
    return floor(log(1 + served_s / HOUR_S, SERVICE_STEP))


def corral(job: Job, context: OrderContext) -> Rank:
    """`slowdown` with ageing: the rank falls to 0 as the wait nears AGE_LIMIT_S; beyond that, first come, first served.

    The longer a job has run, the longer it is likely to go on. A job without an estimate is therefore expected to need
    as much again as it has had. The amounts are in levels (discretised as in Tiresias, Gu et al., NSDI 2019).
    """
    age = (context.now - job.submitted_at) / AGE_LIMIT_S
    if age >= 1:
        return (-1.0,)
    run_s = context.estimate_s(job)
    if run_s is None:
        return (HOUR_S * SERVICE_STEP ** service_level(context.served_s(job)),)
    return (max(run_s, SHORTEST_S) * sqrt(context.gpus(job)) * (1 - age),)


def _known(estimate_s: float | None) -> float:
    return inf if estimate_s is None else estimate_s


FCFS = Order("fcfs", fcfs, settled=True, alike=True)
PRIORITY = Order("priority", priority, settled=True, alike=True)
ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        order.name: order
        for order in (
            FCFS,
            PRIORITY,
            Order("priority-ageing", ageing_priority(DAY_S), settled=True, alike=True),
            Order("fair-share", fair_share, alike=True),
            Order("sjf", shortest, alike=True),
            Order("saf", smallest_area, alike=True),
            Order("slowdown", slowdown, alike=True),
            Order("las", least_served, settled=True),
            Order("corral", corral),
        )
    }
)


class Ranking:
    """An order as one queue uses it. If it raises or returns an invalid rank, first come, first served replaces it.

    `urgent_first` ranks by priority first. It is for queues that preempt: otherwise an evicted job could come before
    the more urgent job that it was evicted for. `fault` describes the failure; None if nothing has failed.
    """

    def __init__(self, order: Order, *, urgent_first: bool = False) -> None:
        self.order = order
        self._urgent_first = urgent_first
        self.fault: str | None = None

    def rank(self, job: Job, context: OrderContext) -> Rank:
        """The job's rank, ending in its sequence number. After a failure of the order, its own part is left out."""
        if self.fault is None:
            try:
                rank = self.order.rank(job, context)
            except Exception as error:
                self.fault = f"{self.order.name} raised {type(error).__name__}: {error}"
            else:
                if _sound(rank):
                    return (*self._before(job), *rank, job.sequence)
                self.fault = f"{self.order.name} returned {rank!r}, which is no tuple of numbers"
        return (*self._before(job), job.sequence)

    def _before(self, job: Job) -> Rank:
        return (job.spec.priority,) if self._urgent_first else ()


def _sound(rank: object) -> bool:
    return type(rank) is tuple and all(isinstance(part, (int, float)) and not isnan(part) for part in rank)
