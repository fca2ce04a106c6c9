"""Builds the replays of a server."""

from corral.features.building import Built, CoreDoors
from corral.features.replays.replay_access import Replays
from corral.features.replays.replay_process import ReplayProcess


def build(core: CoreDoors) -> Built:
    """The orders of users, and the process that runs them."""
    runner = ReplayProcess(core.home.ledger_url)
    replays = Replays(core.ledger, core.clock, runner, core.policies, placement=core.settings.placement)
    return Built(offers=(replays,), close=replays.close)
