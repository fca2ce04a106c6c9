"""Reads and starts moves of running jobs."""

from typing import TYPE_CHECKING

from corral.client.connecting.transport import Transport
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.features.rebalancing.answers import Rebalance


def rebalance(transport: Transport, *, dry_run: bool) -> "Rebalance":
    """The moves that the scheduler would make now. Without `dry_run` it may make them from now on."""
    from corral.features.rebalancing.answers import Rebalance

    return from_answer(Rebalance, transport.get("/rebalance") if dry_run else transport.post("/rebalance"))
