"""How control has the past run again: what is asked, and who does it, away from the server's own threads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from corral.model.answers.replays import ReplayResult
from corral.model.device import Node
from corral.model.errors import CorralError
from corral.model.fact import SiteArranged

CONFIGURED = "configured"
"""In place of a policy: each queue under its own, as the settings have it."""


class ReplayStopped(CorralError):
    """The replay was ended before its result."""


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """What to run again, and on which site.

    Attributes:
        policies: POLICY, POLICY/BACKFILL or `CONFIGURED`.
        since, until: which jobs: those that were there in this time (Unix seconds, by the ledger's clock).
        now: until when those ran that still run.
        nodes, site: as they are now.
        placement: the weights by which the site ranks nodes.
        usage_half_life_s, availability_memory_weight: as `corral.model.view.View` has them.
    """

    policies: tuple[str, ...]
    since: float
    until: float
    now: float
    nodes: tuple[Node, ...]
    site: SiteArranged
    placement: tuple[tuple[str, float], ...]
    usage_half_life_s: float
    availability_memory_weight: float


class ReplayRunner(Protocol):
    """Runs one replay at a time."""

    def run(self, order: ReplayOrder, progress: Callable[[int, int], None], wanted: Callable[[], bool]) -> ReplayResult:
        """The result; `progress` is told how many jobs are done, of how many.

        Returns soon after `wanted` has become false, or `stop` was called. Raises ReplayStopped then, Refused for what
        cannot be replayed, and BackendFailed where it takes too much time or memory, or breaks.
        """
        ...

    def stop(self) -> None:
        """End what runs, and run nothing more. Safe from any thread."""
        ...
