"""A server's ledger, planner, controller and dispatcher, over simulated work, keep their promises in any order."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from corral.backends.simulated import SimulatedBackend
from corral.clock import SystemClock
from corral.control.asking import Asking
from corral.control.caller import Caller
from corral.control.controller import Controller
from corral.control.dispatcher import Dispatcher
from corral.control.environment import launch_of
from corral.control.holdings import Holdings
from corral.control.inquiry import Inquiry
from corral.control.inspection import Inspection
from corral.control.service import Service
from corral.control.slicing import Slicing
from corral.control.tenancy import Tenancy
from corral.control.transitions import Backoff
from corral.ledger.fold import check
from corral.ledger.store import SqlLedger, open_ledger
from corral.model.device import DeviceCondition, DeviceSample
from corral.model.errors import Conflict
from corral.model.fact import ConditionObserved, NodeObserved, Observation
from corral.model.fit import Misfit, fit, node_state
from corral.model.job import JobKind, Phase, Request
from corral.model.means import Means
from corral.model.rows import ServerInfo
from corral.model.submission import Submission
from corral.model.units import MILLI_PER_DEVICE
from corral.ports import Decided, JobQuery
from corral.scheduling.feasible import refuse_impossible, verify
from corral.scheduling.info import gpu_info
from corral.scheduling.planner import Planner
from corral.sharing.exclusive import Exclusive
from corral.sharing.timeslice import Timeslice
from corral.telemetry.processes import HostProcesses
from tests.control.strategies import box

GPUS = 3
ALICE = Caller("alice", 1000, 1000, (1000,), admin=True)
BOX = box(GPUS)


class IdleDevices:
    """Devices that nobody else ever uses."""

    def latest(self) -> dict[str, DeviceSample]:
        return {}

    def refresh(self, uuids: Sequence[str], timeout_s: float) -> tuple[Observation, ...]:
        return tuple(ConditionObserved(DeviceCondition(u, memory_free_mib=81920, utilization_pct=0)) for u in uuids)


class House:
    """One server's life over a ledger file and a backend that outlive it."""

    def __init__(self, url: str, backend: SimulatedBackend) -> None:
        self.ledger: SqlLedger = open_ledger(url)
        self.ledger.observe([NodeObserved(BOX.nodes["box"]), *map(ConditionObserved, BOX.conditions.values())])
        self.ledger.commit(lambda _: Decided((), None)).result()
        clock = SystemClock()
        scratch = Path(url.removeprefix("sqlite:///")).with_name("scratch")
        scratch.mkdir(exist_ok=True)
        self.tenancy = Tenancy({Means.EXCLUSIVE: Exclusive(), Means.TIMESLICE: Timeslice()}, scratch)
        self.dispatcher = Dispatcher(
            self.ledger,
            {JobKind.RUN: backend},
            clock,
            lambda job, view: launch_of(job, view.allocations[job.allocation_id or ""], {}, "/", "/"),
            Backoff(0.001, 0.002),
            tenancy=self.tenancy,
        )
        backend.on_event = self.dispatcher.look
        self.controller = Controller(
            self.ledger,
            Planner,
            IdleDevices(),
            clock,
            verify=verify,
            describe=gpu_info,
            enforce=self.tenancy.enforcement,
            launch=self.dispatcher.launch,
            stop=self.dispatcher.stop,
        )
        inquiry = Inquiry(
            self.ledger,
            self.controller,
            IdleDevices(),
            clock,
            asking=Asking(),
            log_path=lambda job_id: Path("/dev/null"),
            about=ServerInfo,
        )
        self.service = Service(
            self.ledger,
            inquiry,
            HostProcesses(),
            clock,
            holdings=Holdings(self.ledger, self.tenancy),
            slicing=Slicing(self.ledger, inquiry, allowed=False),
            asking=Asking(),
            inspection=Inspection(clock),
            refuse_impossible=refuse_impossible,
            stop=self.dispatcher.stop,
            adopt=self.dispatcher.launch,
        )
        self.dispatcher.recover()
        self.dispatcher.start()
        self.controller.start()
        self.settle()

    def settle(self) -> None:
        """Wait until nothing moves: the last plan is of this view and starts nothing, and nobody is on the way."""
        deadline = time.monotonic() + 10
        while self._moves():
            assert time.monotonic() < deadline, "the house does not come to rest"
            time.sleep(0.001)

    def _moves(self) -> bool:
        view, plan = self.ledger.view(), self.controller.plan
        on_the_way = (Phase.STARTING, Phase.STOPPING)
        return (
            plan.version != view.version or bool(plan.starts) or any(j.phase in on_the_way for j in view.jobs.values())
        )

    def close(self) -> None:
        self.controller.close()
        self.dispatcher.close()
        self.ledger.close()


class LifeOfAServer(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{self.directory.name}/ledger.db"
        self.backend = SimulatedBackend(SystemClock())
        self.house = House(self.url, self.backend)
        self.acknowledged: list[str] = []

    def teardown(self) -> None:
        self.house.close()
        self.directory.cleanup()

    def some(self, data: st.DataObject) -> str | None:
        jobs = sorted(self.house.ledger.view().jobs)
        return data.draw(st.sampled_from(jobs)) if jobs else None

    @rule(gpus=st.integers(0, GPUS), count=st.integers(1, 3), follow=st.booleans())
    def submit(self, gpus: int, count: int, follow: bool) -> None:
        active = sorted(self.house.ledger.view().jobs, key=int)
        after = (active[-1],) if follow and active else ()
        work = Submission(("true",), request=Request(devices=gpus), workdir="/", after=after)
        self.acknowledged += self.house.service.submit([work] * count, ALICE)
        self.house.settle()

    @rule(shares=st.lists(st.sampled_from(["0.3", "0.5", "0.75", "1.2", "2.5"]), min_size=1, max_size=3))
    def submit_shares(self, shares: list[str]) -> None:
        work = [Submission(("true",), resources={"cuda.shares": share}, workdir="/") for share in shares]
        self.acknowledged += self.house.service.submit(work, ALICE)
        self.house.settle()

    @rule(data=st.data(), code=st.sampled_from([0, 1]))
    def exit(self, data: st.DataObject, code: int) -> None:
        live = sorted(self.house.ledger.view().allocations)
        if live:
            ending = data.draw(st.sampled_from(live))
            self.backend.finish(ending, code)
            while ending in self.house.ledger.view().allocations:
                time.sleep(0.001)
            self.house.settle()

    @rule(data=st.data(), deed=st.sampled_from(["cancel", "hold", "release", "requeue"]))
    def change(self, data: st.DataObject, deed: str) -> None:
        job_id = self.some(data)
        if job_id is not None:
            try:
                getattr(self.house.service, deed)(job_id, ALICE)
            except Conflict:
                return
            self.house.settle()

    @rule(index=st.integers(0, GPUS - 1), deed=st.sampled_from(["cordon", "uncordon"]))
    def set_apart(self, index: int, deed: str) -> None:
        if deed == "cordon":
            self.house.service.cordon(str(index), "a test", ALICE)
        else:
            self.house.service.uncordon(str(index), ALICE)
        self.house.settle()

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """The server goes away, work ends meanwhile, and another comes."""
        self.house.close()
        self.backend.on_event = lambda _: None
        live = sorted(self.house.ledger.view().allocations)
        for allocation_id in data.draw(st.lists(st.sampled_from(live), unique=True)) if live else []:
            self.backend.finish(allocation_id)
        self.house = House(self.url, self.backend)
        self.house.settle()

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        assert {job.id for job in self.house.ledger.jobs(JobQuery())} == set(self.acknowledged)

    @invariant()
    def no_device_is_given_out_more_than_once(self) -> None:
        view = self.house.ledger.view()
        assert all(view.held_milli(uuid) <= MILLI_PER_DEVICE for uuid in view.holders)
        assert all(view.held_mib(uuid) <= 81920 for uuid in view.holders)

    @invariant()
    def every_share_is_given_whole(self) -> None:
        view = self.house.ledger.view()
        for allocation in view.allocations.values():
            given = sum(grant.share_milli for grant in allocation.placement.grants)
            assert given == view.jobs[allocation.job_id].spec.request.total_milli

    @invariant()
    def nothing_runs_more_often_than_it_was_handed_devices(self) -> None:
        launches = {job.id: job.launches for job in self.house.ledger.jobs(JobQuery())}
        assert all(self.backend.ran.count(job_id) <= launches[job_id] for job_id in self.acknowledged)

    @invariant()
    def what_could_run_does_not_wait(self) -> None:
        view = self.house.ledger.view()
        waiting = [j for j in view.jobs.values() if j.phase is Phase.PENDING and not j.held and not j.waits_for]
        for head in sorted(waiting, key=lambda j: (j.spec.priority, j.sequence))[:1]:
            assert isinstance(fit(head.spec.request, node_state(view, "box")), Misfit), f"{head.id} could run"

    @invariant()
    def the_journal_folds_to_the_tables(self) -> None:
        assert check(self.url) == ()


TestLifeOfAServer = LifeOfAServer.TestCase
TestLifeOfAServer.settings = settings(max_examples=12, stateful_step_count=12, suppress_health_check=list(HealthCheck))
