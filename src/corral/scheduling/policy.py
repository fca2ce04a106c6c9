"""A policy is a named bundle: an order, a way to fill in behind a blocked job, a way to share time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from corral.model.errors import Refused, nearest
from corral.model.queue import Queue
from corral.scheduling.queueing.order import HOUR_S, ORDERS, PRIORITY, Order


class Backfill(StrEnum):
    """What may start behind a job that has no place.

    NONE: nothing on devices that the job could use. EASY: what does not delay the first such job, which gets a
    reservation. CONSERVATIVE: what delays none of them; each gets one. ANY: whatever fits, for policies that share
    time and so let nobody starve.
    """

    NONE = "none"
    EASY = "easy"
    CONSERVATIVE = "conservative"
    ANY = "any"


class BackfillOrder(StrEnum):
    """Who is tried first for filling in: the next in the queue, or the shortest."""

    QUEUE = "queue"
    SJF = "sjf"


class Prefer(StrEnum):
    """Which of the nodes that fit, equal in speed: the fullest, the first by name, or where least worth is lost.

    CORRAL is the last: `corral.scheduling.placing.worth.values` says what free capacity is worth to expected jobs.
    """

    FULLEST = "fullest"
    FIRST = "first"
    CORRAL = "corral"


@dataclass(frozen=True, slots=True)
class Policy:
    """How one queue is served.

    Attributes:
        weights: scores by name, each with its weight, by which the nodes that fit are ranked instead; the names are
            those of `corral.scheduling.placing.packing.SCORES`. They say nothing of speeds.
        quantum_s: a job that has run so long since it was last started may have to make room for one of lower rank;
            None: jobs run to their end.
        spared_s: no job is ended to make room before it has run so long.
        strict: whoever has no place keeps everybody behind from starting, whatever they need, unless that is promised
            to them, as what was cleared for them is.
    """

    order: Order = PRIORITY
    backfill: Backfill = Backfill.EASY
    backfill_order: BackfillOrder = BackfillOrder.QUEUE
    prefer: Prefer = Prefer.CORRAL
    quantum_s: float | None = None
    spared_s: float = 0.0
    strict: bool = False
    weights: tuple[tuple[str, float], ...] = ()

    @property
    def ranking(self) -> tuple[tuple[str, float], ...]:
        """The scores that nodes are ranked by; () where `prefer` alone decides."""
        return self.weights or ((("corral", 1.0),) if self.prefer is Prefer.CORRAL else ())

    @property
    def method(self) -> str:
        """How devices are chosen, for the record of an allocation."""
        return "+".join(name for name, _ in self.ranking) or "availability"


SCORE_NAMES = (
    *("corral", "fragmentation", "best-fit", "pack", "spread", "availability", "least-loaded"),
    *("round-robin", "topology", "earlier-first"),
)
"""What `Policy.weights` may name. `corral.scheduling.placing.packing.SCORES` has them all, and loads arrays."""

DEFAULT = Policy()
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        **{name: Policy(order) for name, order in ORDERS.items()},
        "las": Policy(ORDERS["las"], Backfill.ANY, quantum_s=HOUR_S),
        "corral-sharing": Policy(ORDERS["corral"], Backfill.ANY, quantum_s=HOUR_S),
    }
)


def policy_named(name: str, policies: Mapping[str, Policy] = POLICIES) -> Policy:
    """The policy of that name. Raises Refused, naming the nearest there is."""
    if name not in policies:
        raise Refused(f"there is no policy {name!r}; {nearest(name, policies)}", field="policy")
    return policies[name]


def backfill_named(name: str) -> Backfill:
    """What may start behind a job without a place, by name. Raises Refused, naming the nearest there is."""
    if name not in tuple(Backfill):
        raise Refused(f"there is no backfill {name!r}; {nearest(name, Backfill)}", field="backfill")
    return Backfill(name)


def backfill_order_named(name: str) -> BackfillOrder:
    """Who is tried first for filling in, by name. Raises Refused, naming the nearest there is."""
    if name not in tuple(BackfillOrder):
        raise Refused(f"there is no backfill order {name!r}; {nearest(name, BackfillOrder)}", field="backfill_order")
    return BackfillOrder(name)


def policy_of(queue: Queue, policies: Mapping[str, Policy] = POLICIES) -> Policy:
    """How the queue is served: by the policy it names, but for what it says itself. Raises Refused as above."""
    policy = policy_named(queue.policy, policies)
    if queue.backfill is not None:
        policy = replace(policy, backfill=Backfill(queue.backfill))
    return policy if queue.spared_s is None else replace(policy, spared_s=queue.spared_s)


def placed_by(weights: tuple[tuple[str, float], ...], policies: Mapping[str, Policy]) -> Mapping[str, Policy]:
    """The policies with places chosen by these scores."""
    return {name: replace(policy, weights=weights) for name, policy in policies.items()}


def with_site_orders(orders: Mapping[str, Order], policies: Mapping[str, Policy] = POLICIES) -> Mapping[str, Policy]:
    """The policies and, by name, those of a site's own orders."""
    return {**policies, **{name: replace(DEFAULT, order=order) for name, order in orders.items()}}
