"""Who may have which replay run, how many, and what becomes of those that nobody asks after."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.access.caller import Caller
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.errors import BackendFailed, Conflict, NotFound, Refused
from corral.core.model.fact import SiteArranged
from corral.core.model.queues.queue import Queue
from corral.core.ports.ledger import Decided
from corral.core.scheduling.policy import POLICIES
from corral.features.replays import replay_access as limits
from corral.features.replays.answers import Replay, ReplayResult
from corral.features.replays.replay_access import Replays
from corral.features.replays.replay_order import ReplayOrder, ReplayStopped
from corral.features.replays.replay_state import ReplayState
from tests.core.ledger.making import url_of

ALICE, BOB, ROOT = Caller("alice"), Caller("bob"), Caller("root", admin=True, overseer=True)
NOW = 1_700_000_000.0
PATIENCE_S = 60.0
RESULT = ReplayResult(since=0.0, step_s=1.0, gpus=1, base=0)


class HeldRunner:
    """Runs nothing, and answers when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.orders: list[ReplayOrder] = []
        self.stopped = threading.Event()
        self.raises: Exception | None = None

    def run(self, order: ReplayOrder, progress: Callable[[int, int], None], wanted: Callable[[], bool]) -> ReplayResult:
        self.orders.append(order)
        progress(3, 10)
        self.begun.release()
        while not self.let_go.acquire(timeout=0.01):
            if self.stopped.is_set() or not wanted():
                raise ReplayStopped("it is not wanted")
        if self.raises is not None:
            raise self.raises
        return RESULT

    def stop(self) -> None:
        self.stopped.set()


class Rig:
    """Replays over an empty ledger with a queue of the site's, a clock set by hand, and a runner held by the test."""

    def __init__(self, ledger: SqlLedger) -> None:
        self.clock = ManualClock(NOW)
        self.runner = HeldRunner()
        self.replays = Replays(ledger, self.clock, self.runner, POLICIES, placement=(("pack", 1.0),))

    def start(self, caller: Caller = ALICE, *policies: str) -> Replay:
        return self.replays.start(caller, policies or ("configured", "sjf"))

    def until(self, caller: Caller, replay_id: str, state: ReplayState) -> Replay:
        deadline = time.monotonic() + PATIENCE_S
        while (told := self.replays.find(caller, replay_id)).state is not state:
            assert time.monotonic() < deadline, told
            time.sleep(0.005)
        return told


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    ledger = open_ledger(url_of(tmp_path))
    ledger.observe([SiteArranged((Queue("default", "fair-share"), Queue("night", "las")))])
    ledger.commit(lambda _: Decided((), None)).result()
    rig = Rig(ledger)
    yield rig
    rig.replays.close()
    ledger.close()


def test_a_replay_is_queued_runs_and_is_done(rig: Rig) -> None:
    told = rig.start()
    assert (told.user, told.policies, told.until - told.since) == ("alice", ("configured", "sjf"), 7 * 86400)
    assert rig.runner.begun.acquire(timeout=PATIENCE_S)
    running = rig.replays.find(ALICE, told.id)
    assert (running.state, running.jobs_done, running.jobs_total) == (ReplayState.RUNNING, 3, 10)
    rig.runner.let_go.release()
    done = rig.until(ALICE, told.id, ReplayState.DONE)
    assert (done.result, done.jobs_done) == (RESULT, 10)
    (order,) = rig.runner.orders
    assert ([queue.policy for queue in order.site.queues], order.placement) == (
        ["fair-share", "las"],
        (("pack", 1.0),),
    )


def test_what_can_be_chosen_is_told_with_the_callers_own_replays(rig: Rig) -> None:
    own, _ = rig.start(ALICE), rig.start(BOB)
    told = rig.replays.choices(ALICE)
    assert {"fcfs", "sjf", "fair-share"} <= set(told.policies)
    assert (told.configured, "none" in told.backfills) == (("fair-share", "las"), True)
    assert [one.id for one in told.replays] == [own.id]


def test_another_users_replay_is_not_there_but_for_administrators(rig: Rig) -> None:
    own = rig.start(ALICE)
    for ask in (rig.replays.find, rig.replays.cancel):
        with pytest.raises(NotFound):
            ask(BOB, own.id)
    assert rig.replays.find(ROOT, own.id).id == own.id


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        ((), "1 to 4"),
        (("fcfs", "sjf", "saf", "las", "corral"), "1 to 4"),
        (("fcsf",), "did you mean 'fcfs'"),
        (("fcfs/eazy",), "did you mean 'easy'"),
        (("configured/none",), "no policy"),
        (("",), "no policy"),
    ],
)
def test_policies_that_make_no_sense_are_refused_before_anything_runs(
    rig: Rig, policies: tuple[str, ...], told: str
) -> None:
    with pytest.raises(Refused, match=told):
        rig.replays.start(ALICE, policies)
    assert rig.runner.orders == []


def test_an_empty_period_is_refused(rig: Rig) -> None:
    with pytest.raises(Refused, match="empty"):
        rig.replays.start(ALICE, ("sjf",), since=NOW - 10, until=NOW - 20)


def test_one_runs_at_a_time_and_the_others_know_how_many_go_first(rig: Rig) -> None:
    first, second, third = rig.start(ALICE), rig.start(BOB), rig.start(ROOT)
    assert rig.runner.begun.acquire(timeout=PATIENCE_S)
    assert [rig.replays.find(ROOT, one.id).ahead for one in (first, second, third)] == [0, 1, 2]
    rig.runner.let_go.release()
    rig.until(ALICE, first.id, ReplayState.DONE)
    assert rig.replays.find(ROOT, third.id).ahead == 1
    assert len(rig.runner.orders) <= 2


def test_a_user_has_only_so_many_that_are_not_done(rig: Rig) -> None:
    held = [rig.start(ALICE) for _ in range(limits.MOST_OF_A_USER)]
    with pytest.raises(Conflict, match=held[0].id):
        rig.start(ALICE)
    rig.replays.cancel(ALICE, held[0].id)
    rig.start(ALICE)


def test_no_more_wait_than_may(rig: Rig) -> None:
    for number in range(limits.MOST_QUEUED + 1):
        rig.start(Caller(f"user-{number}"))
    with pytest.raises(BackendFailed, match="try again"):
        rig.start(Caller("one-more"))


def test_a_replay_is_cancelled_while_it_waits_and_while_it_runs(rig: Rig) -> None:
    running, waiting = rig.start(ALICE), rig.start(BOB)
    assert rig.runner.begun.acquire(timeout=PATIENCE_S)
    for caller, one in ((BOB, waiting), (ALICE, running)):
        assert rig.replays.cancel(caller, one.id).state is ReplayState.CANCELLED
    after = rig.start(BOB)
    assert rig.runner.begun.acquire(timeout=PATIENCE_S)
    rig.runner.let_go.release()
    rig.until(BOB, after.id, ReplayState.DONE)
    assert rig.replays.find(BOB, waiting.id).state is ReplayState.CANCELLED
    assert len(rig.runner.orders) == 2


def test_one_that_nobody_asks_after_is_ended(rig: Rig) -> None:
    left, waits = rig.start(ALICE), rig.start(BOB)
    assert rig.runner.begun.acquire(timeout=PATIENCE_S)
    rig.clock.advance(limits.ABANDONED_S + 1)
    last = rig.start(ROOT)
    assert rig.runner.begun.acquire(timeout=PATIENCE_S)
    assert rig.replays.find(ROOT, last.id).state is ReplayState.RUNNING
    for caller, one in ((ALICE, left), (BOB, waits)):
        told = rig.replays.find(caller, one.id)
        assert told.state is ReplayState.CANCELLED
        assert told.error


def test_what_is_over_is_forgotten_after_a_while(rig: Rig) -> None:
    own = rig.start(ALICE)
    rig.runner.let_go.release()
    rig.until(ALICE, own.id, ReplayState.DONE)
    rig.clock.advance(limits.KEPT_S - 1)
    assert rig.replays.find(ALICE, own.id).result == RESULT
    rig.clock.advance(limits.KEPT_S + 1)
    assert rig.replays.choices(ALICE).replays == ()
    with pytest.raises(NotFound):
        rig.replays.find(ALICE, own.id)


def test_of_many_that_are_over_the_newest_are_kept(rig: Rig) -> None:
    ids = []
    for _ in range(limits.MOST_KEPT + 2):
        ids.append(rig.start(ALICE).id)
        rig.runner.let_go.release()
        rig.until(ALICE, ids[-1], ReplayState.DONE)
    assert [one.id for one in rig.replays.choices(ALICE).replays] == ids[: -limits.MOST_KEPT - 1 : -1]


def test_who_asks_for_many_loses_nobody_elses(rig: Rig) -> None:
    theirs = rig.start(BOB)
    rig.runner.let_go.release()
    rig.until(BOB, theirs.id, ReplayState.DONE)
    for _ in range(limits.MOST_KEPT + 2):
        own = rig.start(ALICE)
        rig.replays.cancel(ALICE, own.id)
    assert rig.replays.find(BOB, theirs.id).result == RESULT
    assert len(rig.replays.choices(ALICE).replays) < limits.MOST_KEPT + 1


@pytest.mark.parametrize(
    ("error", "told"),
    [(Refused("no jobs here"), "no jobs here"), (RuntimeError("secret"), "server's log")],
)
def test_why_one_failed_is_told(rig: Rig, error: Exception, told: str) -> None:
    rig.runner.raises = error
    own = rig.start(ALICE)
    rig.runner.let_go.release()
    failed = rig.until(ALICE, own.id, ReplayState.FAILED)
    assert failed.error is not None
    assert told in failed.error
    assert "secret" not in failed.error


def test_a_server_that_stops_ends_what_runs_and_takes_no_more(rig: Rig) -> None:
    rig.start(ALICE)
    rig.start(BOB)
    assert rig.runner.begun.acquire(timeout=PATIENCE_S)
    rig.replays.close()
    assert len(rig.runner.orders) == 1
    with pytest.raises(BackendFailed, match="stopping"):
        rig.start(ROOT)
