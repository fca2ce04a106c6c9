"""A server's ledger, planner, controller and dispatcher, over simulated work, keep their promises in any order."""

import tempfile
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from corral.clock import SystemClock
from corral.core.access.caller import Caller
from corral.core.control.changing.job_changes import Verb
from corral.core.ledger.fold import check
from corral.core.lifecycle.device_faults import device_fell_sick
from corral.core.model.devices.health import DeviceHealth, Health
from corral.core.model.errors import Conflict
from corral.core.model.fact import ConditionObserved, DeviceHealthChanged, JobChanged, NodeObserved
from corral.core.model.home import Home
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.job_update import JobUpdate
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.site_faults import OnFault
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.fit import Misfit, fit
from corral.core.model.placing.state import node_state
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, JobQuery
from corral.features.feature_list import slices
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import LiveServer
from tests.core.control.strategies import box

GPUS = 3
PICKS = st.integers(0, 99)
"""Which of those there are, counted round: a draw whose range is theirs would differ when a server is slow."""
ON_FAULT = st.sampled_from([None, OnFault.REQUEUE, OnFault.LEAVE])
ALICE = Caller("alice", 1000, 1000, (1000,), admin=True)
BOX = box(GPUS)


def server_of(home: Home, runtime: SimulatedRuntime) -> LiveServer:
    nodes = {"box": SimulatedNode(runtime, SystemClock())}
    return LiveServer(home, nodes, [NodeObserved(BOX.nodes["box"]), *map(ConditionObserved, BOX.conditions.values())])


def sickened(view: View, changed: DeviceHealthChanged) -> Decided[tuple[str, ...]]:
    """A device falls sick: what the watch over devices commits, and the allocations to stop."""
    facts = [changed, *device_fell_sick(view, changed.uuid, changed.health, changed.at)]
    stopping = [one for one in facts if isinstance(one, JobChanged) and one.changes.get("phase") is Phase.STOPPING]
    return Decided(tuple(facts), tuple(view.jobs[one.job_id].allocation_id or "" for one in stopping))


class LifeOfAServer(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.home = Home(Path(self.directory.name))
        self.runtime = SimulatedRuntime(SystemClock())
        self.server = server_of(self.home, self.runtime)
        self.acknowledged: list[str] = []

    def teardown(self) -> None:
        self.server.close()
        self.directory.cleanup()

    def some_job(self, pick: int) -> str | None:
        jobs = sorted(self.server.ledger.view().jobs)
        return jobs[pick % len(jobs)] if jobs else None

    def some_launch(self, pick: int) -> str | None:
        live = sorted(self.server.ledger.view().allocations)
        return live[pick % len(live)] if live else None

    @rule(gpus=st.integers(0, GPUS), count=st.integers(1, 3), follow=st.booleans(), on_fault=ON_FAULT)
    def submit(self, gpus: int, count: int, follow: bool, on_fault: OnFault | None) -> None:
        active = sorted(self.server.ledger.view().jobs, key=int)
        after = (active[-1],) if follow and active else ()
        work = Submission(("true",), request=Request(devices=gpus), workdir="/", after=after, on_fault=on_fault)
        self.acknowledged += self.server.service.submit([work] * count, ALICE)
        self.server.settle()

    @rule(shares=st.lists(st.sampled_from(["0.3", "0.5", "0.75", "1.2", "2.5"]), min_size=1, max_size=3))
    def submit_shares(self, shares: list[str]) -> None:
        work = [Submission(("true",), resources={"cuda.shares": share}, workdir="/") for share in shares]
        self.acknowledged += self.server.service.submit(work, ALICE)
        self.server.settle()

    @rule(pick=PICKS, code=st.sampled_from([0, 1]))
    def exit(self, pick: int, code: int) -> None:
        ending = self.some_launch(pick)
        if ending is not None:
            self.runtime.finish(ending, code)
            while ending in self.server.ledger.view().allocations:
                time.sleep(0.001)
            self.server.settle()

    @rule(pick=PICKS, verb=st.sampled_from(list(Verb)))
    def change(self, pick: int, verb: Verb) -> None:
        job_id = self.some_job(pick)
        if job_id is not None:
            try:
                self.server.service.changes.one(verb, job_id, ALICE)
            except Conflict:
                return
            self.server.settle()

    @rule(pick=PICKS, asked=st.builds(JobUpdate, priority=st.integers(0, 9), queue=st.sampled_from([None, "night"])))
    def update(self, pick: int, asked: JobUpdate) -> None:
        job_id = self.some_job(pick)
        if job_id is not None:
            try:
                self.server.service.updating.update(job_id, asked, ALICE)
            except Conflict:
                return
            self.server.settle()

    @rule(pick=PICKS, restarted=st.booleans())
    def lose_a_record(self, pick: int, restarted: bool) -> None:
        """What is on record of a launch is destroyed, and a server hears of it, or finds it so when it comes."""
        lost = self.some_launch(pick)
        if lost is None:
            return
        if restarted:
            self.server.close()
            self.runtime.lose_record(lost)
            self.server = server_of(self.home, self.runtime)
        else:
            self.runtime.lose_record(lost)
            self.runtime.on_event(lost)
        while lost in self.server.ledger.view().allocations:
            time.sleep(0.001)
        self.server.settle()
        job = self.server.ledger.find_job(lost.rpartition(".")[0])
        assert job is not None
        assert job.phase is Phase.LOST

    @rule(index=st.integers(0, GPUS - 1), command=st.sampled_from(["cordon", "uncordon"]))
    def set_apart(self, index: int, command: str) -> None:
        if command == "cordon":
            self.server.service.device_cordons.cordon(str(index), "a test", ALICE)
        else:
            self.server.service.device_cordons.uncordon(str(index), ALICE)
        self.server.settle()

    @rule(index=st.integers(0, GPUS - 1), state=st.sampled_from([Health.QUARANTINED, Health.HEALTHY]))
    def fall_sick_or_recover(self, index: int, state: Health) -> None:
        uuid, ledger, at = f"GPU-{index}", self.server.ledger, time.time()
        health = DeviceHealth(state, "a test", at, relapses=1)
        changed = DeviceHealthChanged(uuid, health, at=at, by="test")
        if state is Health.HEALTHY:
            ledger.commit(lambda _: Decided((changed,), None)).result()
        else:
            stopped = ledger.commit(lambda view: sickened(view, changed)).result()
            for allocation_id in stopped:
                self.server.core.dispatcher.stop(allocation_id)
        self.server.settle()

    @rule(ending=st.sets(st.integers(0, 5)))
    def restart(self, ending: set[int]) -> None:
        """The server goes away, work ends meanwhile, and another comes."""
        self.server.close()
        self.runtime.on_event = lambda _: None
        for number, allocation_id in enumerate(sorted(self.server.ledger.view().allocations)):
            if number in ending:
                self.runtime.finish(allocation_id)
        self.server = server_of(self.home, self.runtime)
        self.server.settle()

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        assert {job.id for job in self.server.ledger.jobs(JobQuery())} == set(self.acknowledged)

    @invariant()
    def no_device_is_given_out_more_than_once(self) -> None:
        view = self.server.ledger.view()
        assert all(view.allocated_milli(uuid) <= MILLI_PER_DEVICE for uuid in view.holders)
        assert all(view.allocated_mib(uuid) <= 81920 for uuid in view.holders)

    @invariant()
    def every_share_is_given_whole(self) -> None:
        view = self.server.ledger.view()
        for allocation in view.allocations.values():
            given = sum(grant.share_milli for grant in allocation.placement.grants)
            assert given == view.jobs[allocation.job_id].spec.request.total_milli

    @invariant()
    def nothing_runs_more_often_than_it_was_handed_devices(self) -> None:
        launches = {job.id: job.launches for job in self.server.ledger.jobs(JobQuery())}
        assert all(self.runtime.ran.count(job_id) <= launches[job_id] for job_id in self.acknowledged)

    @invariant()
    def what_could_run_does_not_wait(self) -> None:
        """The first job of the queue that uses least is the first of all. Others may wait because it does."""
        view = self.server.ledger.view()
        used = Counter[str]()
        for allocation in view.allocations.values():
            used[view.jobs[allocation.job_id].spec.queue] += sum(
                grant.share_milli for grant in allocation.placement.grants
            )
        waiting = [j for j in view.jobs.values() if j.phase is Phase.PENDING and not j.held and not j.waits_for]
        for head in sorted(waiting, key=lambda j: (used[j.spec.queue], j.spec.queue, j.spec.priority, j.sequence))[:1]:
            request = head.spec.request
            usable = [i for i, device in enumerate(view.nodes["box"].devices) if request.may_use(device)]
            assert isinstance(fit(request, node_state(view, "box"), usable=usable), Misfit), f"{head.id} could run"

    @invariant()
    def a_job_that_is_to_move_runs_on_no_sick_device(self) -> None:
        view = self.server.ledger.view()
        for job in view.jobs.values():
            if job.allocation_id in view.allocations and job.spec.on_fault is OnFault.REQUEUE:
                sick = [uuid for uuid in job.devices if uuid in view.health]
                assert all(view.health[uuid].state is not Health.QUARANTINED for uuid in sick)

    @invariant()
    def whoever_is_held_by_the_server_is_told_why(self) -> None:
        for job in self.server.ledger.view().jobs.values():
            assert job.held_because is None or job.held

    @invariant()
    def the_journal_folds_to_the_tables(self) -> None:
        assert check(self.home.ledger_url, slices()) == ()


def test_a_server_that_starts_again_expects_the_like_of_what_came_before(tmp_path: Path) -> None:
    """Three tenths of a device are worth more to a server that has seen requests for so much than to a new one."""
    worth = {}
    for past, jobs in (("some", 40), ("none", 0)):
        home = Home(tmp_path / past)
        home.root.mkdir()
        first = server_of(home, SimulatedRuntime(SystemClock()))
        first.service.submit([Submission(("true",), resources={"cuda.shares": "0.3"}, workdir="/")] * jobs, ALICE)
        first.settle()
        first.close()
        server = server_of(home, SimulatedRuntime(SystemClock()))
        server.service.submit([Submission(("true",), request=Request(devices=0), workdir="/")], ALICE)
        server.settle()
        prices = server.core.controller.prices
        assert prices is not None
        worth[past] = prices.worth[0, 30]
        server.close()
    assert worth["some"] > worth["none"]


# A hundred and forty steps, each with its commits and a look at the whole journal: minutes, where the disk is slow.
TestLifeOfAServer = LifeOfAServer.TestCase
TestLifeOfAServer.settings = settings(max_examples=12, stateful_step_count=12, suppress_health_check=list(HealthCheck))
