"""Policies: named combinations of an order, a kind of backfill, how nodes are ranked, and time slicing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from corral.core.model.errors import Refused, nearest
from corral.core.model.queues.queue import Queue
from corral.core.scheduling.queueing.order import HOUR_S, ORDERS, PRIORITY, Order


class Backfill(StrEnum):
    """The rule for jobs that may start behind a job that does not fit now.

    NONE: no job on devices that the blocked job could use. EASY: jobs that do not delay the first blocked job, which is
    promised a start. CONSERVATIVE: jobs that delay no blocked job; each is promised a start. ANY: all jobs that fit,
    for policies with time slicing, under which no job starves.
    """

    NONE = "none"
    EASY = "easy"
    CONSERVATIVE = "conservative"
    ANY = "any"


class BackfillOrder(StrEnum):
    """The job that is tried first for backfill: the next in the queue, or the shortest."""

    QUEUE = "queue"
    SJF = "sjf"


class Prefer(StrEnum):
    """The node to take, if several fit and are equal in speed.

    FULLEST: the node with the fewest suitable devices left. FIRST: the first node by name. CORRAL: the node where the
    placement costs expected jobs least, see `corral.core.scheduling.placing.worth.values`.
    """

    FULLEST = "fullest"
    FIRST = "first"
    CORRAL = "corral"


@dataclass(frozen=True, slots=True)
class Policy:
    """The scheduling of one queue.

    Attributes:
        weights: scores by name, each with its weight. They rank nodes instead of `prefer`, and ignore speeds. The names
            are those of `corral.core.scheduling.placing.packing.SCORES`.
        quantum_s: a job may be evicted for one with a lower rank after running this long; None: jobs run to their end.
        spared_s: no job is evicted before it has run this long.
        strict: whether a job that does not fit keeps all jobs behind it from starting, whatever they need. Jobs that
            were promised a start, for example by evicting others, still start.
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
    def keeps_promises(self) -> bool:
        """Whether each blocked job is promised a start, and no later cycle breaks the promise."""
        return self.backfill is Backfill.CONSERVATIVE

    @property
    def ranking(self) -> tuple[tuple[str, float], ...]:
        """The scores by which nodes are ranked; () if `prefer` alone decides."""
        return self.weights or ((("corral", 1.0),) if self.prefer is Prefer.CORRAL else ())

    @property
    def method(self) -> str:
        """The name of the method that chooses devices, for the record of an allocation."""
        return "+".join(name for name, _ in self.ranking) or "availability"


SCORE_NAMES = (
    *("corral", "fragmentation", "best-fit", "pack", "spread", "availability", "least-loaded"),
    *("round-robin", "topology", "earlier-first"),
)
"""The names for `Policy.weights`. They stand here because settings are checked without NumPy.

`corral.core.scheduling.placing.packing.SCORES` has the scores themselves.
"""

DEFAULT = Policy()
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        **{name: Policy(order) for name, order in ORDERS.items()},
        "las": Policy(ORDERS["las"], Backfill.ANY, quantum_s=HOUR_S),
        "corral-sharing": Policy(ORDERS["corral"], Backfill.ANY, quantum_s=HOUR_S),
    }
)


def policy_named(name: str, policies: Mapping[str, Policy] = POLICIES) -> Policy:
    """The policy of that name. Raises Refused, which names the most similar one, if there is none."""
    return policies[_known(name, policies, "policy")]


def backfill_named(name: str) -> Backfill:
    """The kind of backfill of that name. Raises Refused, which names the most similar one, if there is none."""
    return Backfill(_known(name, list(Backfill), "backfill"))


def backfill_order_named(name: str) -> BackfillOrder:
    """The order of backfill of that name. Raises Refused, which names the most similar one, if there is none."""
    return BackfillOrder(_known(name, list(BackfillOrder), "backfill_order"))


def _known(name: str, names: Collection[str], field: str) -> str:
    if name not in names:
        raise Refused(f"there is no {field.replace('_', ' ')} {name!r}; {nearest(name, names)}", field=field)
    return name


def split_policy(text: str, policies: Mapping[str, Policy] = POLICIES) -> tuple[str, Backfill | None]:
    """The policy and backfill named in POLICY or POLICY/BACKFILL, like fcfs/none. Raises Refused for unknown names."""
    name, slash, backfill = text.partition("/")
    policy_named(name, policies)
    return name, backfill_named(backfill) if slash else None


def policy_of(queue: Queue, policies: Mapping[str, Policy] = POLICIES) -> Policy:
    """The policy that the queue names, changed by the queue's own settings. Raises Refused as `policy_named` does."""
    policy = policy_named(queue.policy, policies)
    if queue.backfill is not None:
        policy = replace(policy, backfill=Backfill(queue.backfill))
    return policy if queue.spared_s is None else replace(policy, spared_s=queue.spared_s)


def placed_by(weights: tuple[tuple[str, float], ...], policies: Mapping[str, Policy]) -> Mapping[str, Policy]:
    """The policies, changed to rank all nodes by these weighted scores."""
    return {name: replace(policy, weights=weights) for name, policy in policies.items()}


def with_site_orders(orders: Mapping[str, Order]) -> Mapping[str, Policy]:
    """The policies, with one more for each of the site's own orders, under the name of the order."""
    return {**POLICIES, **{name: replace(DEFAULT, order=order) for name, order in orders.items()}}
