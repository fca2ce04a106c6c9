"""What a site's own packages may import, and the loading of what they register as entry points.

The names exported here are stable; everything else in Corral may move between releases. Start with `queue_orders`.
"""

from corral.core.scheduling.queueing.order import OrderContext, Rank

__all__ = ["OrderContext", "Rank"]
