"""Lets the scheduler move running jobs: each night, or when an administrator asks. Shows the moves beforehand."""

import logging
from datetime import datetime, timedelta

from corral.clock import Clock
from corral.config import RebalanceTime
from corral.core.access.caller import Caller
from corral.core.access.permissions import must_be_admin
from corral.core.lifecycle.stopping import notice_s
from corral.core.model.fact import MovesAllowed
from corral.core.model.placing.plan import Evict
from corral.core.model.units import format_duration
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.scheduling.forecast import MakePlanner
from corral.features.rebalancing.answers import MoveRow, Rebalance
from corral.features.rebalancing.moves_now import moves_now

log = logging.getLogger(__name__)

NIGHT_HOUR = 3
"""The hour of the night, by the server's time zone, in which jobs are moved."""

ON_REQUEST_S = 600.0
"""The scheduler moves jobs for this long after an administrator has asked."""

_HOUR_S = 3600.0


class Rebalancing:
    """The times at which the scheduler may move running jobs. Thread-safe."""

    def __init__(self, ledger: Ledger, clock: Clock, planner: MakePlanner, when: RebalanceTime) -> None:
        self._ledger = ledger
        self._clock = clock
        self._planner = planner
        self._when = when

    def foreseen(self) -> Rebalance:
        """The moves that the scheduler would make now if it may move jobs. Changes nothing."""
        view, now = self._ledger.view(), self._clock.now()
        found = moves_now(view, now, self._planner)
        return Rebalance(
            moves=tuple(_move_row(view, one, now) for one in found.moves),
            starts=tuple(one.job_id for one in found.starts),
            emptied=_emptied(view, found.moves),
            until=view.moves_until if view.moves_until > now else None,
        )

    def start(self, caller: Caller) -> Rebalance:
        """Let the scheduler move jobs for the next minutes. Returns the moves that are foreseen. Raises Forbidden."""
        must_be_admin(caller, "moving the jobs of others")
        self._allow_until(self._clock.now() + ON_REQUEST_S)
        log.info("jobs may be moved for %s: asked by %s", format_duration(ON_REQUEST_S), caller.user)
        return self.foreseen()

    def look(self) -> None:
        """Let the scheduler move jobs if it is night and the site wants that."""
        if self._when is not RebalanceTime.NIGHTLY:
            return
        ends = night_ends(self._clock.shown(self._clock.now()))
        until = None if ends is None else self._clock.taken(ends)
        if ends is not None and until is not None and until > self._ledger.view().moves_until:
            log.info("jobs may be moved until %s", datetime.fromtimestamp(ends).astimezone().strftime("%H:%M"))
            self._allow_until(until)

    def _allow_until(self, until: float) -> None:
        self._ledger.observe([MovesAllowed(max(until, self._ledger.view().moves_until))])
        # What is observed is published in order: after this commit the view has it.
        self._ledger.commit(lambda _: Decided((), None)).result()


def night_ends(now: float) -> float | None:
    """The end of the hour in which jobs are moved, if it is that hour at `now`; else None. Both by the wall clock."""
    here = datetime.fromtimestamp(now).astimezone()
    if here.hour != NIGHT_HOUR:
        return None
    return (here.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)).timestamp()


def _move_row(view: View, move: Evict, now: float) -> MoveRow:
    job, allocation = view.jobs[move.job_id], view.allocations[view.jobs[move.job_id].allocation_id or ""]
    saves = notice_s(job) > 0
    return MoveRow(
        job=job.id,
        user=job.spec.user,
        nodes=tuple(dict.fromkeys(member.node for member in allocation.placement.members)),
        reason=move.reason,
        for_job=None if move.for_job_id == job.id else move.for_job_id,
        lost_gpu_hours=0.0 if saves else allocation.gpus * max(0.0, now - view.unsaved_since(allocation)) / _HOUR_S,
        saves=saves,
    )


def _emptied(view: View, moves: tuple[Evict, ...]) -> tuple[str, ...]:
    """The nodes whose jobs all move for no other job."""
    moved = {view.jobs[one.job_id].allocation_id for one in moves if one.for_job_id == one.job_id}
    left = {member.node for one in moved if one for member in view.allocations[one].placement.members}
    return tuple(sorted(name for name in left if set(view.residents.get(name, ())) <= moved))
