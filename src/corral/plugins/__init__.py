"""The names that a site's own packages may import, and the loading of the entry points that they register.

The names exported here are stable; everything else in Corral may change between releases. Start with `queue_orders`.
"""

from corral.core.scheduling.queueing.order import OrderContext, Rank

__all__ = ["OrderContext", "Rank"]
