"""Which job next: each order gives a job a rank, and the lowest rank goes first. Every rank ends in the sequence."""

from collections.abc import Callable
from dataclasses import dataclass

from corral.model.job import Job

Rank = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """A named order. `rank` may depend on the job alone, so that waiting jobs stay sorted as time goes by."""

    name: str
    rank: Callable[[Job], Rank]


def fcfs_rank(job: Job) -> Rank:
    """First come, first served."""
    return (job.sequence,)


def priority_rank(job: Job) -> Rank:
    """The lower priority number first; among equals, first come."""
    return (job.spec.priority, job.sequence)


FCFS = Order("fcfs", fcfs_rank)
PRIORITY = Order("priority", priority_rank)
ORDERS = {order.name: order for order in (FCFS, PRIORITY)}


def order_named(name: str) -> Order:
    """The order of that name; FCFS, which needs to know nothing, when there is none."""
    return ORDERS.get(name, FCFS)
