"""Replays of past jobs under other policies, on request: the waiting and running replays, and their results.

One replay runs at a time, in a process of its own, and a few wait. A replay without questions about it is ended or
forgotten.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.control.querying.wall_times import in_wall_time, period_of
from corral.core.model.errors import BackendFailed, Conflict, CorralError, NotFound, Refused
from corral.core.model.fact import SiteArranged
from corral.core.ports.ledger import Ledger
from corral.core.scheduling.policy import Backfill, Policy, split_policy
from corral.features.replays.answers import Replay, ReplayChoices, ReplayResult
from corral.features.replays.replay_order import CONFIGURED, ReplayOrder, ReplayRunner, ReplayStopped
from corral.features.replays.replay_state import ReplayState

MOST_POLICIES = 4
MOST_QUEUED = 8
MOST_OF_A_USER = 2
"""The most replays of one user that wait or run."""

MOST_KEPT = 20
KEPT_S = 1800.0
"""A finished replay is kept for this long after the last question about it."""

ABANDONED_S = 150.0
"""A waiting or running replay without questions for this long is ended. Pages in the background ask each minute."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    """A replay, its times by the ledger's clock, with its order and when it was asked after last."""

    told: Replay
    order: ReplayOrder
    asked_at: float


class Replays:
    """Replays by id. Safe from any thread; only `ReplayRunner.run`, on a thread of its own, takes long."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        runner: ReplayRunner,
        policies: Mapping[str, Policy],
        *,
        placement: tuple[tuple[str, float], ...] = (),
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._runner = runner
        self._policies = policies
        self._placement = placement
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def choices(self, caller: Caller) -> ReplayChoices:
        """Return the possible choices, and the caller's replays."""
        with self._lock:
            self._forget()
            own = [self._row(one) for one in self._kept.values() if one.told.user == caller.user]
        queues = self._ledger.view().queues
        return ReplayChoices(
            policies=tuple(sorted(self._policies)),
            backfills=tuple(kind.value for kind in Backfill),
            configured=tuple(dict.fromkeys(queues[name].policy for name in sorted(queues))),
            most_policies=MOST_POLICIES,
            replays=tuple(replace(row, result=None) for row in reversed(own)),
        )

    def start(
        self, caller: Caller, policies: Sequence[str], *, since: float | None = None, until: float | None = None
    ) -> Replay:
        """Ask for a replay of a period (Unix seconds; by default the last week).

        Raises Refused for an invalid policy or period, Conflict if the caller has too many replays, and BackendFailed
        if too many wait.
        """
        wanted = self._checked(policies)
        begin, end = period_of(self._clock, since, until)
        order = self._order(wanted, begin, end)
        with self._lock:
            self._forget()
            self._admit(caller)
            told = Replay(f"replay-{token_hex(6)}", caller.user, ReplayState.QUEUED, wanted, begin, end, order.now)
            self._kept[told.id] = one = _Kept(told, order, self._clock.monotonic())
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="replays", daemon=True)
                self._thread.start()
            return self._row(one)

    def find(self, caller: Caller, replay_id: str) -> Replay:
        """Return its progress, and its result once there is one. Raises NotFound."""
        with self._lock:
            one = self._of(caller, replay_id)
            one.asked_at = self._clock.monotonic()
            self._forget()
            return self._row(one)

    def cancel(self, caller: Caller, replay_id: str) -> Replay:
        """End it, or nothing if it is over. Raises NotFound."""
        with self._lock:
            one = self._of(caller, replay_id)
            if not one.told.state.over:
                one.told = replace(one.told, state=ReplayState.CANCELLED, error="it was cancelled")
            return self._row(one)

    def close(self) -> None:
        """End the running replay, and start no other."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._runner.stop()
        if thread is not None:
            thread.join()

    def _checked(self, policies: Sequence[str]) -> tuple[str, ...]:
        wanted = tuple(dict.fromkeys(policies))
        if not 1 <= len(wanted) <= MOST_POLICIES:
            raise Refused(f"policies: name 1 to {MOST_POLICIES} policies, not {len(wanted)}", field="policies")
        for name in wanted:
            if name != CONFIGURED:
                split_policy(name, self._policies)
        return wanted

    def _order(self, policies: tuple[str, ...], since: float, until: float) -> ReplayOrder:
        view = self._ledger.view()
        site = SiteArranged(
            tuple(view.queues.values()), tuple(view.projects.values()), tuple(view.pools.values()), view.limits
        )
        return ReplayOrder(
            policies=policies,
            since=since,
            until=until,
            now=self._clock.now(),
            nodes=tuple(view.nodes.values()),
            site=site,
            placement=self._placement,
            usage_half_life_s=view.usage_half_life_s,
            availability_memory_weight=view.availability_memory_weight,
        )

    def _admit(self, caller: Caller) -> None:
        if self._closed:
            raise BackendFailed("the server is stopping")
        unfinished = [one.told for one in self._kept.values() if not one.told.state.over]
        own = [told.id for told in unfinished if told.user == caller.user]
        if len(own) >= MOST_OF_A_USER:
            raise Conflict(
                f"you have {len(own)} unfinished replays ({', '.join(own)}); wait for one of them, or cancel it"
            )
        if len(unfinished) > MOST_QUEUED:
            raise BackendFailed(f"{MOST_QUEUED} replays wait already, and no more may; try again in a few minutes")

    def _of(self, caller: Caller, replay_id: str) -> _Kept:
        one = self._kept.get(replay_id)
        if one is None or not (caller.admin or caller.overseer or one.told.user == caller.user):
            raise NotFound(f"you have no replay {replay_id!r:.40}; old replays are removed: start it again", field="id")
        return one

    def _row(self, one: _Kept) -> Replay:
        ahead = 0
        if one.told.state is ReplayState.QUEUED:
            for other in self._kept.values():
                if other is one:
                    break
                ahead += not other.told.state.over
        return in_wall_time(replace(one.told, ahead=ahead), self._clock)

    def _forget(self) -> None:
        """Drop finished replays without recent questions. If there are too many, drop the oldest of the user with the
        most.

        So one user's many requests never remove another user's results.
        """
        oldest_asked_at = self._clock.monotonic() - KEPT_S
        over_of: dict[str, list[str]] = {}
        for replay_id, one in list(self._kept.items()):
            if not one.told.state.over:
                continue
            if one.asked_at < oldest_asked_at:
                del self._kept[replay_id]
            else:
                over_of.setdefault(one.told.user, []).append(replay_id)
        for _ in range(sum(map(len, over_of.values())) - MOST_KEPT):
            del self._kept[max(over_of.values(), key=len).pop(0)]

    def _work(self) -> None:
        """Run the waiting replays in order, on a thread of its own, until none is left."""
        while (one := self._next()) is not None:
            try:
                result = self._runner.run(one.order, partial(self._tell, one), partial(self._is_wanted, one))
            except ReplayStopped as stopped:
                self._end(one, ReplayState.CANCELLED, str(stopped))
            except CorralError as error:
                self._end(one, ReplayState.FAILED, str(error))
            except Exception:
                log.exception("bug in Corral: a replay failed")
                self._end(one, ReplayState.FAILED, "this is a bug in Corral; the server's log has the details")
            else:
                self._end(one, ReplayState.DONE, None, result)

    def _next(self) -> _Kept | None:
        with self._lock:
            now = self._clock.monotonic()
            for one in self._kept.values():
                if self._closed:
                    break
                if one.told.state is not ReplayState.QUEUED:
                    continue
                if now > one.asked_at + ABANDONED_S:
                    one.told = replace(one.told, state=ReplayState.CANCELLED, error="no client asked for it")
                    continue
                one.told = replace(one.told, state=ReplayState.RUNNING)
                return one
            self._thread = None
            return None

    def _tell(self, one: _Kept, done: int, total: int) -> None:
        with self._lock:
            one.told = replace(one.told, jobs_done=done, jobs_total=total)

    def _is_wanted(self, one: _Kept) -> bool:
        with self._lock:
            running = one.told.state is ReplayState.RUNNING
            return running and self._clock.monotonic() <= one.asked_at + ABANDONED_S

    def _end(self, one: _Kept, state: ReplayState, error: str | None, result: ReplayResult | None = None) -> None:
        with self._lock:
            if not one.told.state.over:
                done = one.told.jobs_total if result is not None else one.told.jobs_done
                one.told = replace(one.told, state=state, error=error, result=result, jobs_done=done)
