"""The deciding loop: when it wakes, what it commits of a plan, and what it hands on."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from corral.clock import ManualClock
from corral.core.control.deciding import controller as controller_module
from corral.core.control.deciding.controller import Controller, CyclePlanner
from corral.core.lifecycle import commands, starting
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import AllocationMade, Delta, JobSubmitted, NodeObserved, StartsPromised
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Placement, Promise
from corral.core.model.placing.plan import Evict, Plan, Start, Wait, WaitReason
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.core.scheduling.planner import Planner
from tests.core.control.cluster import Cluster, on, until

NOW = 1_000_000.0
Says = Callable[[View], Plan]


class Script:
    """A planner that knows its view by what it is told, and decides what a test says."""

    def __init__(self, view: View, says: Says) -> None:
        self.view = view
        self.says = says
        self.cycles = 0
        self.prices = None
        self.submissions: list[str] = []

    def advance(self, deltas: Sequence[Delta]) -> None:
        self.view = self.view.advance(deltas)
        self.submissions += [delta.job.id for delta in deltas if isinstance(delta, JobSubmitted)]

    def plan(self, now: float) -> Plan:
        plan = self.says(self.view)
        self.cycles += 1
        return plan

    def learn(self) -> bool:
        return False


class Deciding(Cluster):
    """Two nodes, and a controller over them whose launches and stops are only written down."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "a", "b")
        self.time = ManualClock(NOW)
        self.launched: list[str] = []
        self.stopped: list[str] = []
        self.controller: Controller | None = None

    def decide(self, make_planner: Callable[[View], CyclePlanner] = Planner) -> Controller:
        """Begin to decide."""
        self.controller = Controller(
            self.ledger,
            make_planner,
            self.registry,
            self.hub,
            self.time,
            launch=self.launch,
            stop=self.stopped.append,
        )
        self.controller.start()
        return self.controller

    def decide_by(self, says: Says) -> Script:
        """Begin to decide what a test says."""
        scripts: list[Script] = []

        def make(view: View) -> Script:
            scripts.append(Script(view, says))
            return scripts[0]

        self.decide(make)
        until(lambda: scripts)
        return scripts[0]

    def submit(self, *numbers: int, **options: Any) -> None:
        """Jobs of these numbers, of one GPU each, wait. Options are a job's."""
        spec = JobSpec("alice", ("true",), request=Request(devices=1))
        jobs = [Job(str(number), number, spec, self.time.now(), **options) for number in numbers]
        facts = tuple(JobSubmitted(job, at=self.time.now(), by="alice") for job in jobs)
        self.ledger.commit(lambda _: Decided(facts, None)).result()

    def launch(self, allocation_id: str) -> None:
        self.launched.append(allocation_id)

    def close(self) -> None:
        if self.controller is not None:
            self.controller.close()
        super().close()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deciding]:
    """By time alone it would wake once in an hour."""
    monkeypatch.setattr(controller_module, "TICK_S", 3600.0)
    cluster = Deciding(tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture
def ticking(cluster: Deciding, monkeypatch: pytest.MonkeyPatch) -> Deciding:
    """One that wakes by time alone all the while."""
    monkeypatch.setattr(controller_module, "TICK_S", 0.002)
    return cluster


def start(number: int, node: str, *indices: int) -> Start:
    return Start(str(number), Placement((on(node, *indices),)), "test")


def once(plan: Plan) -> Says:
    """This plan, as long as its starts still wait, and then nothing."""
    ids = {one.job_id for one in plan.starts}

    def says(view: View) -> Plan:
        waiting = {job.id for job in view.jobs.values() if job.phase is Phase.PENDING}
        return plan if ids & waiting else Plan(view.version)

    return says


def test_what_is_published_wakes_it_at_once(cluster: Deciding) -> None:
    cluster.decide()
    cluster.submit(1)
    until(lambda: cluster.launched == ["1.1"])
    cluster.submit(2)
    until(lambda: cluster.launched == ["1.1", "2.1"])


def test_time_alone_wakes_it_for_a_job_that_may_start_now(ticking: Deciding) -> None:
    controller = ticking.decide()
    ticking.submit(1, eligible_at=NOW + 60.0)
    until(lambda: controller.plan.version == ticking.ledger.view().version)
    assert ticking.launched == []
    ticking.time.advance(60.0)
    until(lambda: ticking.launched == ["1.1"])


def test_a_launch_is_handed_on_only_when_its_allocation_is_on_disk(
    cluster: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk: list[set[str]] = []

    def launch(allocation_id: str) -> None:
        facts = [entry.fact for entry in cluster.ledger.journal()]
        on_disk.append({fact.allocation.id for fact in facts if isinstance(fact, AllocationMade)})

    monkeypatch.setattr(cluster, "launch", launch)
    cluster.submit(1)
    cluster.decide()
    until(lambda: on_disk)
    assert on_disk == [{"1.1"}]


def test_the_planner_is_told_everything_once_also_what_came_while_it_was_made(
    cluster: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Script] = []
    view_of_ledger = cluster.ledger.view

    def view_that_knows_of_the_first() -> View:
        monkeypatch.setattr(cluster.ledger, "view", view_of_ledger)
        cluster.submit(1)
        return view_of_ledger()

    def make(view: View) -> Script:
        cluster.submit(2)
        made.append(Script(view, lambda view: Plan(view.version)))
        return made[0]

    monkeypatch.setattr(cluster.ledger, "view", view_that_knows_of_the_first)
    controller = cluster.decide(make)
    until(lambda: made)
    cluster.submit(3)
    until(lambda: controller.plan.version == cluster.ledger.view().version)
    assert made[0].view.jobs == cluster.ledger.view().jobs
    assert made[0].submissions == ["2", "3"], "the first was in its view from the beginning"


def test_of_a_plan_only_what_still_fits_is_committed_and_launched(cluster: Deciding) -> None:
    cluster.submit(1, 2, 3)
    cluster.submit(4, held=True)
    plan = Plan(0, starts=(start(1, "a", 0), start(2, "a", 0), start(3, "b", 1), start(4, "b", 2), start(5, "b", 3)))
    cluster.decide_by(once(plan))
    until(lambda: cluster.launched)
    assert cluster.launched == ["1.1", "3.1"]
    assert sorted(cluster.ledger.view().allocations) == ["1.1", "3.1"]


def test_the_first_of_many_starts_are_launched_while_the_next_are_not_on_disk_yet(
    cluster: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "COMMITTED_AT_ONCE", 2)
    on_disk: dict[str, list[str]] = {}

    def launch(allocation_id: str) -> None:
        on_disk[allocation_id] = sorted(cluster.ledger.view().allocations)

    monkeypatch.setattr(cluster, "launch", launch)
    cluster.submit(1, 2, 3)
    cluster.decide_by(once(Plan(0, starts=(start(1, "a", 0), start(2, "a", 1), start(3, "b", 1)))))
    until(lambda: len(on_disk) == 3)
    assert on_disk == {"1.1": ["1.1", "2.1"], "2.1": ["1.1", "2.1"], "3.1": ["1.1", "2.1", "3.1"]}


def test_evictions_are_committed_and_handed_on_to_be_stopped(cluster: Deciding) -> None:
    cluster.commit(1, on("a", 0))
    cluster.submit(2)
    eviction = Evict("1", "2", "room for job 2")
    stale = Evict("7", "2", "room for job 2")

    def says(view: View) -> Plan:
        return Plan(view.version, evictions=(eviction, stale) if view.jobs["1"].phase is Phase.STARTING else ())

    cluster.decide_by(says)
    until(lambda: cluster.stopped)
    job = cluster.job(1)
    assert (cluster.stopped, job.phase, job.stop_reason) == (["1.1"], Phase.STOPPING, Phase.PENDING)


def test_an_obstacle_on_every_node_keeps_everything_from_starting_and_is_told_until_it_is_gone(
    ticking: Deciding,
) -> None:
    for node in ticking.nodes.values():
        node.obstacle = "the disk is full"
    ticking.submit(1, 2)
    both = Plan(0, starts=(start(1, "a", 0), start(2, "b", 0)))
    script = ticking.decide_by(once(both))
    controller = ticking.controller
    assert controller is not None
    until(lambda: controller.obstacle == "the disk is full")
    assert ticking.launched == []
    script.says = lambda view: Plan(view.version)
    for node in ticking.nodes.values():
        node.obstacle = None
    until(lambda: controller.obstacle is None)
    script.says = once(both)
    until(lambda: sorted(ticking.launched) == ["1.1", "2.1"])


def test_an_obstacle_on_one_of_two_nodes_is_none_for_the_cluster(cluster: Deciding) -> None:
    cluster.nodes["a"].obstacle = "the disk is full"
    cluster.submit(1, 2)
    script = cluster.decide_by(lambda view: Plan(view.version, starts=(start(1, "a", 0), start(2, "b", 0))))
    until(lambda: cluster.launched == ["2.1"] and script.cycles > 1)
    assert cluster.controller is not None
    assert cluster.controller.obstacle is None
    assert cluster.phase(1) is Phase.PENDING


def test_a_ledger_that_cannot_write_is_an_obstacle_and_its_starts_are_made_when_it_can(
    ticking: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: Future[Any] = Future()
    failed.set_exception(LedgerFailed("no space left on the ledger's disk"))
    ticking.submit(1)
    with monkeypatch.context() as full:
        full.setattr(ticking.ledger, "commit", lambda decide, **about: failed)
        controller = ticking.decide()
        until(lambda: controller.obstacle == "no space left on the ledger's disk")
        assert ticking.launched == []
    until(lambda: ticking.launched == ["1.1"])
    until(lambda: controller.obstacle is None)


def test_a_ledger_that_cannot_write_is_tried_once_a_tick_whatever_happens_meanwhile(
    cluster: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: Future[Any] = Future()
    failed.set_exception(LedgerFailed("no space left on the ledger's disk"))
    cluster.submit(1)
    commit = cluster.ledger.commit
    monkeypatch.setattr(cluster.ledger, "commit", lambda decide, **about: failed)
    script = cluster.decide_by(lambda view: Plan(view.version, starts=(start(1, "a", 0),)))
    controller = cluster.controller
    assert controller is not None
    until(lambda: controller.obstacle is not None)
    cycles = script.cycles
    for _ in range(20):
        cluster.ledger.observe([NodeObserved(cluster.ledger.view().nodes["a"])])
        commit(lambda _: Decided((), None)).result()
        time.sleep(0.005)
    assert script.cycles == cycles


def test_a_cycle_that_fails_is_tried_again(
    ticking: Deciding, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed: Future[Any] = Future()
    failed.set_exception(LedgerFailed("no space left"))
    ticking.commit(1, on("a", 0))
    eviction = Evict("1", "2", "room for job 2")
    with monkeypatch.context() as full:
        full.setattr(ticking.ledger, "commit", lambda decide, **about: failed)
        script = ticking.decide_by(lambda view: Plan(view.version, evictions=(eviction,)))
        until(lambda: script.cycles > 1)
    until(lambda: ticking.stopped == ["1.1"])
    assert "a scheduling cycle failed and is tried again: no space left" in caplog.messages


def test_a_node_that_is_slow_keeps_back_its_own_starts_and_no_others(cluster: Deciding) -> None:
    cluster.nodes["a"].fall_silent()
    cluster.submit(1, 2)
    cluster.decide_by(once(Plan(0, starts=(start(1, "a", 0), start(2, "b", 0)))))
    until(lambda: cluster.launched == ["2.1"])
    assert cluster.phase(1) is Phase.PENDING
    cluster.nodes["a"].answer_again()
    until(lambda: cluster.launched == ["2.1", "1.1"])


def test_promises_are_told_to_the_view_until_it_has_them_and_no_more(ticking: Deciding) -> None:
    published: list[tuple[Promise, ...]] = []
    ticking.ledger.subscribe(
        lambda _, deltas: published.extend(one.promises for one in deltas if isinstance(one, StartsPromised))
    )
    ticking.submit(1)
    script = ticking.decide_by(lambda view: Plan(view.version))

    def cycles(count: int) -> None:
        """So many pass, and what they observed is published."""
        after = script.cycles
        until(lambda: script.cycles > after + count)
        ticking.ledger.commit(lambda _: Decided((), None)).result()

    for start_at in (NOW + 600.0, NOW + 60.0):
        promises = (Promise("1", Placement((on("a", 0),)), start_at),)
        script.says = lambda view, promises=promises: Plan(view.version, promises=promises)  # type: ignore[misc]
        until(lambda promises=promises: promises in published)  # type: ignore[misc]
        cycles(2)
        before = len(published)
        cycles(5)
        assert len(published) == before


def test_a_wait_is_booked_by_the_reasons_of_the_plans_and_kept_with_the_start(ticking: Deciding) -> None:
    ticking.submit(1)
    script = ticking.decide_by(lambda view: Plan(view.version, waits=(Wait("1", WaitReason.PRIORITY, 1),)))
    controller = ticking.controller
    assert controller is not None
    until(lambda: controller.plan.waits)
    ticking.time.advance(10.0)
    script.says = lambda view: Plan(view.version, waits=(Wait("1", WaitReason.RESOURCES, 1),))
    until(lambda: controller.plan.waits[0].reason is WaitReason.RESOURCES)
    ticking.time.advance(20.0)
    assert controller.waited(ticking.job(1)) == (("Priority", 10.0), ("Resources", 20.0))
    script.says = once(Plan(0, starts=(start(1, "a", 0),)))
    until(lambda: ticking.launched)
    assert controller.waited(ticking.job(1)) == ticking.job(1).waited == (("Priority", 10.0), ("Resources", 20.0))


def test_the_time_in_which_a_job_is_held_is_booked_as_such(ticking: Deciding) -> None:
    ticking.submit(1)
    script = ticking.decide_by(lambda view: Plan(view.version, waits=(Wait("1", WaitReason.RESOURCES, 1),)))
    controller = ticking.controller
    assert controller is not None

    def hold(held: bool) -> None:
        ticking.ledger.commit(
            lambda view: Decided(tuple(commands.hold(view.jobs["1"], held, by="alice", at=ticking.time.now())), None)
        ).result()
        until(lambda: script.view.version == ticking.ledger.view().version)
        before = script.cycles
        until(lambda: script.cycles > before + 1)

    until(lambda: controller.plan.waits)
    ticking.time.advance(10.0)
    hold(True)
    ticking.time.advance(5.0)
    hold(False)
    ticking.time.advance(2.0)
    assert controller.waited(ticking.job(1)) == (("Resources", 12.0), ("Held", 5.0))


def test_a_job_that_waits_again_has_not_waited_while_it_was_started(ticking: Deciding) -> None:
    ticking.submit(1)
    script = ticking.decide_by(once(Plan(0, starts=(start(1, "a", 0),))))
    controller = ticking.controller
    assert controller is not None
    until(lambda: ticking.launched)
    ticking.time.advance(100.0)
    script.says = lambda view: Plan(view.version, waits=(Wait("1", WaitReason.RESOURCES, 1),))
    ticking.ledger.commit(
        lambda view: Decided(tuple(starting.never_ran(view, view.jobs["1"], by="test", at=ticking.time.now())), None)
    ).result()
    until(lambda: script.view.jobs["1"].phase is Phase.PENDING)
    before = script.cycles
    until(lambda: script.cycles > before + 1)
    ticking.time.advance(3.0)
    assert controller.waited(ticking.job(1)) == (("Resources", 3.0),)


def test_it_learns_between_decisions_and_leaves_off_when_something_happens(cluster: Deciding) -> None:
    class Student(Script):
        steps = 0

        def learn(self) -> bool:
            self.steps += 1
            return True

    student = Student(cluster.ledger.view(), lambda view: Plan(view.version))
    cluster.decide(lambda _: student)
    until(lambda: student.steps > 3)
    cluster.submit(1)
    until(lambda: "1" in student.view.jobs and student.cycles > 1)


def test_a_fault_of_a_policy_is_logged_once(ticking: Deciding, caplog: pytest.LogCaptureFixture) -> None:
    script = ticking.decide_by(lambda view: Plan(view.version, faults=("queue q: its policy failed",)))
    until(lambda: script.cycles > 3)
    assert caplog.messages.count("queue q: its policy failed") == 1


def test_of_many_that_start_at_once_users_are_launched_in_turn_each_ones_in_order(cluster: Deciding) -> None:
    of = {number: "ann" if number <= 100 else "bob" for number in range(1, 103)}
    specs = {user: JobSpec(user, ("true",), request=Request(devices=0)) for user in ("ann", "bob")}
    jobs = [Job(str(number), number, specs[user], cluster.time.now()) for number, user in of.items()]
    facts = tuple(JobSubmitted(job, at=cluster.time.now(), by=job.spec.user) for job in jobs)
    cluster.decide()
    cluster.ledger.commit(lambda _: Decided(facts, None)).result()
    until(lambda: len(cluster.launched) == len(of))
    numbers = [int(allocation_id.partition(".")[0]) for allocation_id in cluster.launched]
    assert numbers[:5] == [1, 101, 2, 102, 3]
    assert [number for number in numbers if number <= 100] == [*range(1, 101)]
