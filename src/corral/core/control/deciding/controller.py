"""The scheduling loop: wake, decide, commit, and hand the starts to the dispatcher."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from corral.clock import Clock
from corral.core.control.deciding.commit import commit_evictions, commit_starts
from corral.core.control.deciding.readiness import ReadinessChecks
from corral.core.control.deciding.wait_times import WaitBook
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import CorralError, LedgerFailed
from corral.core.model.fact import Delta, JobChanged, JobRequeued, JobSubmitted, JobUpdated, StartsPromised
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_update import with_changes
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.plan import Plan, Start, WaitReason
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.ports.telemetry import NodeTelemetry
from corral.core.scheduling.placing.gpu_info import gpu_info
from corral.core.scheduling.placing.start_recheck import verify
from corral.core.scheduling.promising.backfill import promises_changed
from corral.core.scheduling.queueing.admission import ineligible
from corral.core.sharing.enforcement import enforcement
from corral.fair_queue import SERVER, FairQueue
from corral.histogram import SECONDS, Histogram

if TYPE_CHECKING:
    from corral.core.scheduling.placing.worth.values import Prices
from corral.core.model.jobs.job import JobKind
from corral.core.ports.ledger import JobQuery
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import DEFAULT, Policy

log = logging.getLogger(__name__)

TICK_S = 1.0
"""The longest sleep of the loop: time alone can make jobs eligible."""

LEARN_PAUSE_S = 0.01
"""The pause between steps of learning, of about a millisecond each. The dispatcher carries out the last decision
meanwhile, and learning must not take the processor from it.
"""

COMMITTED_AT_ONCE = 64
"""The most starts in one commit: they are launched while the next ones are written."""

LEDGER = ""
"""The key in place of a node's name if the ledger keeps everything from starting."""


class CyclePlanner(Protocol):
    """The interface of the planner that the loop uses."""

    def advance(self, deltas: Sequence[Delta]) -> None:
        """Apply the deltas to the planner's state."""
        ...

    def plan(self, now: float) -> Plan:
        """Return a plan by all deltas applied so far."""
        ...

    def learn(self) -> bool:
        """Run one bounded step of learning, between decisions. Return False if there is nothing to learn."""
        ...

    @property
    def prices(self) -> "Prices | None":
        """The prices learned so far."""
        ...


class Controller:
    """Runs the planner over the ledger's view on a thread of its own, and commits what it decides."""

    def __init__(
        self,
        ledger: Ledger,
        make_planner: Callable[[View], CyclePlanner],
        nodes: Nodes,
        telemetry: NodeTelemetry,
        clock: Clock,
        *,
        launch: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._make_planner = make_planner
        self._nodes = nodes
        self._clock = clock
        self._launch = launch
        self._stop = stop
        self._obstacles: Mapping[str, str] = {}
        self.planning_seconds = Histogram(SECONDS)
        self._waits = WaitBook()
        self._lock = threading.Lock()
        self._batches: list[tuple[int, Sequence[Delta]]] = []
        self._wake = threading.Event()
        self._checks = ReadinessChecks(nodes, telemetry, clock, self._wake.set)
        self._closing = threading.Event()
        self._plan = Plan(version=0)
        self._planner: CyclePlanner | None = None
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)

    def start(self) -> None:
        """Start the loop, from the last view that the ledger has published."""
        self._ledger.subscribe(self._changed)
        self._thread.start()

    def close(self) -> None:
        """Finish the current cycle and stop."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    @property
    def plan(self) -> Plan:
        """The last plan."""
        return self._plan

    @property
    def obstacles(self) -> Mapping[str, str]:
        """The reasons that keep jobs from starting, as sentences by node; `LEDGER` stands for the ledger's own disk."""
        return self._obstacles

    @property
    def obstacle(self) -> str | None:
        """The reason why nothing can start now although devices may be free, None while something can start."""
        obstacles = self._obstacles
        if LEDGER in obstacles:
            return obstacles[LEDGER]
        return next(iter(obstacles.values())) if obstacles and len(obstacles) >= len(self._nodes) else None

    @property
    def prices(self) -> "Prices | None":
        """The current estimate of the worth of free capacity, None while no job was placed by worth."""
        return None if self._planner is None else self._planner.prices

    def waited(self, job: Job) -> tuple[tuple[str, float], ...]:
        """Return how a job spent its wait: the record of its last start, or the account so far while it waits."""
        if job.phase.terminal or job.allocation_id is not None:
            return job.waited
        return self._waits.spent(job, self._clock.now())

    def _changed(self, view: View, deltas: Sequence[Delta]) -> None:
        with self._lock:
            self._batches.append((view.version, deltas))
        self._wake.set()

    def _run(self) -> None:
        view = self._ledger.view()
        planner = self._planner = self._make_planner(view)
        while not self._closing.is_set():
            try:
                self._cycle(planner, known_version=view.version)
            except CorralError as error:
                log.error("a scheduling cycle failed and is tried again: %s", error)
            while not self._wake.is_set() and planner.learn() and not self._wake.wait(LEARN_PAUSE_S):
                pass
            if LEDGER in self._obstacles:
                # The samples that a cycle takes would wake it again at once, without a pause until the disk has room.
                self._closing.wait(TICK_S)
            self._wake.wait(timeout=TICK_S)
            self._wake.clear()

    def _cycle(self, planner: CyclePlanner, known_version: int) -> None:
        with self._lock:
            batches, self._batches = self._batches, []
        deltas = [delta for version, batch in batches if version > known_version for delta in batch]
        began_s = self._clock.monotonic()
        planner.advance(deltas)
        now = self._clock.now()
        jobs = self._ledger.view().jobs
        plan = planner.plan(now)
        self.planning_seconds.add(self._clock.monotonic() - began_s)
        self._book(deltas, jobs, plan, now)
        for fault in plan.faults:
            if fault not in self._plan.faults:
                log.error("%s", fault)
        self._plan = plan
        promised = self._ledger.view().promises
        if promises_changed(promised, plan.promises):
            self._ledger.observe([StartsPromised(plan.promises)])
        if plan.evictions:
            self._evict(plan)
        if plan.starts or self._obstacles:
            self._start(plan.starts)

    def _book(self, deltas: Sequence[Delta], jobs: Mapping[str, Job], plan: Plan, now: float) -> None:
        """Record how waiting jobs spend their time."""
        for delta in deltas:
            match delta:
                case JobRequeued(job=again, at=at):
                    self._waits.reopen(again.id, at)
                case JobChanged(job_id=job_id, changes={"phase": Phase.PENDING}, at=at):
                    self._waits.reopen(job_id, at)
                case JobUpdated(job_id=job_id, before=before, at=at) if job_id in jobs:
                    now_is = jobs[job_id]
                    self._waits.carry_over(replace(now_is, spec=with_changes(now_is.spec, before)), at)
        for job_id in dict.fromkeys(_named_job(delta) for delta in deltas):
            job = jobs.get(job_id)
            if job is None or job.phase is not Phase.PENDING:
                self._waits.close(job_id)
            else:
                barrier = ineligible(job, now)
                reason, until = (None, None) if barrier is None else (barrier.reason, barrier.until)
                self._waits.park(job, reason, now, until)
        reasons = [(wait.job_id, wait.reason) for wait in plan.waits]
        if self._obstacles:
            reasons += [(start.job_id, WaitReason.DISK) for start in plan.starts]
        starting = [jobs[start.job_id] for start in plan.starts if start.job_id in jobs]
        self._waits.note([(jobs[job_id], reason) for job_id, reason in reasons if job_id in jobs], now, starting)

    def _evict(self, plan: Plan) -> None:
        at = self._clock.now()
        for allocation_id in self._ledger.commit(lambda view: commit_evictions(view, plan.evictions, at)).result():
            self._stop(allocation_id)

    def _start(self, starts: Sequence[Start]) -> None:
        """Ask the nodes whether these jobs can start, commit the starts that still fit, and launch them.

        A full disk is not a failure of a job: starts that it prevents wait.
        """
        checked = self._checks.check(starts, self._ledger.view(), self._obstacles)
        obstacles = {node: why for node, why in self._obstacles.items() if node in checked.awaited}
        obstacles |= checked.obstacles
        if checked.observations:
            self._ledger.observe(checked.observations)
        if checked.starts:
            try:
                self._commit(checked.starts)
            except LedgerFailed as error:
                obstacles[LEDGER] = str(error)
        self._tell_of(obstacles)
        self._obstacles = obstacles

    def _tell_of(self, obstacles: Mapping[str, str]) -> None:
        for node, obstacle in obstacles.items():
            if self._obstacles.get(node) != obstacle:
                log.error("nothing starts%s: %s", f" on node {node}" if node and len(self._nodes) > 1 else "", obstacle)
        for node in self._obstacles.keys() - obstacles.keys():
            log.info("jobs start again%s", f" on node {node}" if node and len(self._nodes) > 1 else "")

    def _commit(self, starts: Sequence[Start]) -> None:
        """Commit the starts in parts, users in turn: the first starts are launched while the next are written."""
        starts = _in_turn(starts, self._ledger.view().jobs)
        for first in range(0, len(starts), COMMITTED_AT_ONCE):
            self._commit_together(starts[first : first + COMMITTED_AT_ONCE])

    def _commit_together(self, starts: Sequence[Start]) -> None:
        at = self._clock.now()
        future = self._ledger.commit(
            lambda view: commit_starts(
                view, starts, at, verify=verify, describe=gpu_info, enforce=enforcement, waited=self.waited
            ),
            jobs=len(starts),
        )
        for allocation_id in future.result():
            self._launch(allocation_id)


def _in_turn(starts: Sequence[Start], jobs: Mapping[str, Job]) -> list[Start]:
    """Return the starts with the users in turn, so that no user waits for many starts of another. All of them fit."""
    waiting: FairQueue[Start] = FairQueue()
    for start in starts:
        job = jobs.get(start.job_id)
        waiting.put(SERVER if job is None else job.spec.user, start)
    return [*iter(waiting.pop, None)]


def _named_job(delta: Delta) -> str:
    match delta:
        case JobSubmitted(job=job) | JobRequeued(job=job):
            return job.id
        case JobChanged(job_id=job_id) | JobUpdated(job_id=job_id):
            return job_id
    return ""


_RECALLED_JOBS = 1_000
"""A new server learns from this many of the newest jobs; reading them takes about 50 ms."""


class Planners:
    """Creates planners by the site's policies."""

    def __init__(self, ledger: Ledger, policies: Mapping[str, Policy]) -> None:
        self._ledger = ledger
        self._policies = policies
        self._deciding: Planner | None = None

    def deciding(self, view: View) -> Planner:
        """Return the planner of the scheduling loop. It learns prices again from the recent requests in the ledger."""
        planner = self.alike(view)
        recent = self._ledger.jobs(JobQuery(limit=_RECALLED_JOBS))
        planner.observe_requests(job.spec.request for job in reversed(recent) if job.spec.kind is JobKind.RUN)
        self._deciding = planner
        return planner

    def alike(self, view: View) -> Planner:
        """Return a planner that plans like the planner of the scheduling loop, with the prices that it has learned so
        far.
        """
        prices = None if self._deciding is None else self._deciding.prices
        return Planner(view, policy=self._policies[DEFAULT.order.name], policies=self._policies, prices=prices)
