"""Queue orders of a site: functions in its own packages, registered in the entry point group `corral.orders`.

Each function takes a `Job` and an `OrderContext` and returns a tuple of numbers. The job with the lowest tuple goes
first.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points

from corral.core.model.errors import Refused
from corral.core.scheduling.policy import POLICIES, Policy, with_site_orders
from corral.core.scheduling.queueing.order import ORDERS, Order

GROUP = "corral.orders"


def load_policies() -> Mapping[str, Policy]:
    """All policies by name, including those with the site's own orders. Call it once, when a process starts.

    Raises Refused for an order that cannot be loaded, is not a function, or has the name of one of Corral's orders.
    """
    orders: dict[str, Order] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        if entry.name in ORDERS or entry.name in POLICIES:
            raise Refused(f"the order {entry.name!r} of {entry.value} has the name of one of Corral's; rename it")
        try:
            rank = entry.load()
        except Exception as error:
            raise Refused(f"the order {entry.name!r} of {entry.value} cannot be loaded: {error}") from error
        if not callable(rank):
            raise Refused(f"the order {entry.name!r} of {entry.value} is not a function")
        orders[entry.name] = Order(entry.name, rank)
    return with_site_orders(orders)
