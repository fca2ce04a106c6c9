"""Launches committed allocations, stops jobs, and collects the results from all nodes.

The commit always precedes the action. The result of a launch comes from its node's report; a notice only says which
report to read. So a notice may be lost, duplicated or late: the recheck reads the reports of all live launches again.
Actions on a node run on a thread of that node.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial

from corral.clock import Clock
from corral.core.control.launching.attempts import Attempt, Attempts, LaunchesOf, shifted
from corral.core.control.launching.deliveries import Deliveries
from corral.core.control.launching.environment import with_rendezvous
from corral.core.control.launching.kept_scratch import kept_of
from corral.core.control.launching.meeting_trial import MeetingTrial, failure_of
from corral.core.control.launching.outcomes import Outcomes
from corral.core.control.launching.time_limits import TimeLimits
from corral.core.control.nodes.node_registry import Nodes
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.errors import BackendFailed, CorralError, NodeUnreachable, Refused
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, failed_launch
from corral.core.ports.ledger import Ledger
from corral.core.ports.node import NodeAgent, Rendezvous
from corral.core.ports.uploads import Uploads
from corral.core.scheduling.explaining.eviction_notices import goes_on

log = logging.getLogger(__name__)

RECHECK_INTERVAL_S = 5.0
LAUNCH_DOUBT_S = 30.0
"""A launch that nothing has claimed this long after the request is declared lost."""
HALF_BEGUN_S = 10.0
"""If only a part of a gang has begun after this time, or the kill grace if that is longer, a recheck ends the gang."""

Tell = Callable[[NodeAgent, Job, Attempt, Launch], None]
"""Writes into the log of a job's member why the member is stopped."""


def _nobody(agent: NodeAgent, job: Job, attempt: Attempt, launch: Launch) -> None:
    """Do nothing."""


class Dispatcher:
    """Carries out the decisions in the ledger. Every method returns at once. Thread-safe."""

    def __init__(
        self,
        ledger: Ledger,
        nodes: Nodes,
        clock: Clock,
        launches_of: LaunchesOf,
        backoff: Backoff,
        *,
        kill_grace_s: float,
        tell: Tell = _nobody,
        uploads: Uploads | None = None,
    ) -> None:
        """`tell` is called on a node's thread before a member there is stopped. `uploads` are the files of jobs."""
        self._ledger = ledger
        self._nodes = nodes
        self._clock = clock
        self._kill_grace_s = kill_grace_s
        self._tell = tell
        self.attempts = Attempts(ledger, launches_of)
        self.outcomes = Outcomes(
            ledger,
            self.attempts,
            clock,
            backoff,
            kill_grace_s=kill_grace_s,
            stop=self.stop,
            stop_members=self._stop_members,
            forget=self._forget,
        )
        self._deliveries = Deliveries(
            nodes,
            uploads,
            self.attempts,
            again=self.launch,
            fail=self._cannot_deliver,
            note_trouble=self.outcomes.note_trouble,
        )
        self._checkpoints = Checkpoints(clock, self.stop)
        self.time_limits = TimeLimits(self.attempts, nodes, self.outcomes.note_trouble)
        self._news = _LaunchNews(nodes, self._read_news)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Start the periodic recheck."""
        self._thread.start()

    def close(self) -> None:
        """Finish the current recheck and stop; the jobs run on."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def launch(self, allocation_id: str) -> None:
        """Launch all members of a committed allocation at once.

        Before that their nodes get the job's files, rank 0's node returns the rendezvous, and all others reach it.
        """
        attempt = self.attempts.of(allocation_id)
        if attempt is None or not self._deliveries.have_arrived(attempt):
            return
        first = attempt.launches[0]
        self._put(attempt, first.node, partial(self._launch_first, attempt), f"launch of {allocation_id}")

    def stop(self, allocation_id: str) -> None:
        """End the work of an allocation whose job is STOPPING. If the allocation was given back, stop watching it."""
        attempt = self.attempts.of(allocation_id)
        for launch in () if attempt is None else attempt.launches:
            assert attempt is not None
            self._put(attempt, launch.node, partial(self._stop, attempt, launch), f"stop of launch {launch.id}")

    def look(self, node: str, launch_ids: Iterable[str]) -> None:
        """Read the new reports of these launches on a node."""
        self._news.add(node, launch_ids)

    def read(self, agent: NodeAgent, launches: Collection[tuple[Attempt, Launch]]) -> list[Attempt]:
        """Store a node's reports of these launches, and return their attempts. For the node's own thread.

        A launch that ran and has no record any more is declared LOST. Raises BackendFailed.
        """
        if not launches:
            return []
        for (attempt, launch), report in zip(launches, self._reports(agent, launches), strict=True):
            self._take(agent, attempt, launch, report)
        return list({attempt.allocation_id: attempt for attempt, _ in launches}.values())

    def trouble(self, allocation_id: str) -> str | None:
        """Return why the next step of a launch fails while it is retried, None if it does not."""
        return self.attempts.trouble(allocation_id)

    def _put(self, attempt: Attempt, node: str, act: Callable[[], None], what: str) -> None:
        """Run `act` on a node's thread. Its failure is stored as the attempt's trouble."""

        def guarded() -> None:
            try:
                act()
            except CorralError as error:
                self.outcomes.note_trouble(attempt, f"{what} failed", error)

        self._nodes.worker(node).put(guarded, attempt.user)

    def _launch_first(self, attempt: Attempt) -> None:
        first = attempt.launches[0]
        if len(attempt.launches) == 1:
            self._launch(attempt, first, None, None)
            return
        meet = self._nodes.agent(first.node).launches.rendezvous(first.id)
        others = {launch.node for launch in attempt.launches} - {first.node}
        if not others or first.rank in attempt.asked_at:
            self._launch_all(attempt, meet, None)
            return
        trial = MeetingTrial(others, partial(self._launch_all, attempt, meet))
        for node in sorted(others):
            act = partial(self._try_meeting, trial, node, meet, first.node)
            self._put(attempt, node, act, f"the trial of the meeting place of {attempt.allocation_id} on {node}")

    def _try_meeting(self, trial: MeetingTrial, node: str, meet: Rendezvous, first: str) -> None:
        trial.answered(node, failure_of(self._nodes.agent(node), node, meet, first))

    def _launch_all(self, attempt: Attempt, meet: Rendezvous, failure: BackendFailed | None) -> None:
        """Launch the members of a gang, or give all up because they cannot meet."""
        first = attempt.launches[0]
        act = partial(self._launch_in_turn, attempt, meet, failure)
        self._put(attempt, first.node, act, f"launch {first.id}")

    def _launch_in_turn(self, attempt: Attempt, meet: Rendezvous, failure: BackendFailed | None) -> None:
        """Launch the first member, then the others. The agent answers at the meeting place until the first is launched:
        another member would take it for that one.
        """
        first, *others = attempt.launches
        try:
            self._launch(attempt, first, meet, failure)
        finally:
            for launch in others:
                act = partial(self._launch, attempt, launch, meet, failure)
                self._put(attempt, launch.node, act, f"launch {launch.id}")

    def _launch(self, attempt: Attempt, launch: Launch, meet: Rendezvous | None, failure: BackendFailed | None) -> None:
        job = self.attempts.job_of(attempt)
        if job is None or job.phase is not Phase.STARTING:
            return
        if not attempt.begin(launch.rank, self._clock.monotonic()):
            return
        if launch.rank == 0 and job.evicted_before is not None:
            log.info("job %s: %s", job.id, goes_on(job, job.evicted_before))
        agent = self._nodes.agent(launch.node)
        launch = attempt.launches[launch.rank]
        if failure is not None:
            self._give_up(agent, attempt, launch, failure)
            return
        try:
            agent.launches.launch(launch if meet is None else with_rendezvous([launch], meet)[0])
        except NodeUnreachable:
            # The launch may have succeeded. The recheck asks again, and declares it lost if nothing claims it in time.
            raise
        except (BackendFailed, Refused) as error:
            self._give_up(agent, attempt, launch, error)
        self.time_limits.renew(attempt, launch.rank)

    def _give_up(self, agent: NodeAgent, attempt: Attempt, launch: Launch, failure: CorralError) -> None:
        """Record a failed launch, and make sure that it never runs."""
        try:
            given_up = agent.launches.declare_lost(launch.id, ran=False)
        except NodeUnreachable:
            raise
        except BackendFailed:
            # No process was asked to run it, so none can claim it: the record in the ledger suffices.
            given_up = True
        if given_up:
            attempt.take(launch.rank, failed_launch(launch.id, failure))
            self.outcomes.settle(attempt)

    def _cannot_deliver(self, attempt: Attempt, launch: Launch, failure: CorralError) -> None:
        def give_up() -> None:
            self._give_up(self._nodes.agent(launch.node), attempt, launch, failure)

        self._put(attempt, launch.node, give_up, f"end of launch {launch.id}, whose files did not arrive,")

    def _take_back_half(self, attempt: Attempt) -> None:
        """End a gang of which only a part has begun, once the grace period is over."""
        job = self.attempts.job_of(attempt)
        missing = attempt.half_begun() if job is not None and job.phase is Phase.STARTING else ()
        if not missing:
            attempt.half_since = None
            return
        now = self._clock.monotonic()
        if attempt.half_since is None:
            attempt.half_since = min(attempt.asked_at.values(), default=now)
        if now - attempt.half_since >= max(HALF_BEGUN_S, self._kill_grace_s):
            names = ", ".join(f"rank {rank} on {attempt.launches[rank].node}" for rank in missing)
            log.warning("launch %s is taken back: %s has not begun in time", attempt.allocation_id, names)
            self._stop_members(attempt, [launch.rank for launch in attempt.launches])

    def _stop(self, attempt: Attempt, launch: Launch) -> None:
        job = self.attempts.job_of(attempt)
        agent = self._nodes.agent(launch.node)
        if job is None:
            agent.launches.stop(launch.id)
        elif job.phase is Phase.STOPPING and not attempt.is_over(launch.rank):
            self._tell(agent, job, attempt, launch)
            self._end(agent, job, attempt, launch)
            self.read(agent, [(attempt, launch)])
        self.outcomes.settle(attempt)

    def _stop_members(self, attempt: Attempt, ranks: Collection[int]) -> None:
        """Stop these members of a gang that cannot go on. A member that has not begun is kept from running."""
        for launch in attempt.launches:
            if launch.rank in ranks:
                act = partial(self._stop_member, attempt, launch)
                self._put(attempt, launch.node, act, f"stop of launch {launch.id}")

    def _stop_member(self, attempt: Attempt, launch: Launch) -> None:
        job = self.attempts.job_of(attempt)
        if job is not None and not attempt.is_over(launch.rank):
            agent = self._nodes.agent(launch.node)
            self._stop_or_keep_from_running(agent, job, launch)
            self.read(agent, [(attempt, launch)])
            if attempt.is_over(launch.rank):
                self.outcomes.settle(attempt)

    def _end(self, agent: NodeAgent, job: Job, attempt: Attempt, launch: Launch) -> None:
        """Stop a launch once the job has had its time for a checkpoint."""
        grace_s = job.spec.checkpoint_grace_s
        signal = partial(agent.launches.tell_to_save, launch.id, stops_in_s=grace_s)
        if self._checkpoints.may_end(job, attempt, launch.rank, signal):
            self._stop_or_keep_from_running(agent, job, launch)

    @staticmethod
    def _stop_or_keep_from_running(agent: NodeAgent, job: Job, launch: Launch) -> None:
        (report,) = agent.launches.reports((launch.id,)).reports
        known = report.phase is not LaunchPhase.UNKNOWN
        if known or not agent.launches.declare_lost(launch.id, ran=job.started_at is not None):
            agent.launches.stop(launch.id)

    def _read_news(self, node: str, launch_ids: tuple[str, ...]) -> None:
        found = [self.attempts.of_launch(node, launch_id) for launch_id in launch_ids]
        launches = [one for one in found if one is not None and not one[0].is_over(one[1].rank)]
        try:
            attempts = self.read(self._nodes.agent(node), launches)
        except CorralError as error:
            for attempt, launch in launches:
                self.outcomes.note_trouble(attempt, f"launch {launch.id} cannot be looked at", error)
            return
        for attempt in attempts:
            self.outcomes.settle(attempt)

    def _reports(self, agent: NodeAgent, launches: Collection[tuple[Attempt, Launch]]) -> tuple[LaunchReport, ...]:
        """Return the node's reports, with their times by the server's clock. Raises BackendFailed for reports of
        other launches.
        """
        asked = tuple(launch.id for _, launch in launches)
        answer = agent.launches.reports(asked)
        if tuple(report.launch_id for report in answer.reports) != asked:
            node = next(launch.node for _, launch in launches)
            raise BackendFailed(f"node {node} reports of other launches than {', '.join(asked)}")
        now = self._clock.now()
        return shifted(answer.reports, now - answer.now, [launch for _, launch in launches], now)

    def _take(self, agent: NodeAgent, attempt: Attempt, launch: Launch, report: LaunchReport) -> None:
        if report.phase is LaunchPhase.UNKNOWN and report.reason is not None:
            attempt.trouble = report.reason
        elif report.phase is LaunchPhase.UNKNOWN and not attempt.is_over(launch.rank):
            job = self.attempts.job_of(attempt)
            if job is not None and job.started_at is not None:
                agent.launches.declare_lost(launch.id, ran=True)
                (report,) = self._reports(agent, [(attempt, launch)])
        attempt.take(launch.rank, report)

    def _forget(self, allocation_id: str) -> None:
        """Have the nodes of an ended allocation clean up, if the ledger has its end."""
        if allocation_id in self._ledger.view().allocations:
            return
        attempt = self.attempts.drop(allocation_id)
        for launch in () if attempt is None else attempt.launches:
            self._nodes.worker(launch.node).put(partial(self._forget_on_node, launch), launch.job.spec.user)

    def _forget_on_node(self, launch: Launch) -> None:
        try:
            keep = kept_of(launch.job, self._ledger)
            self._nodes.agent(launch.node).launches.forget(launch.id, keep=keep)
        except CorralError as error:
            # The ledger does not record the remains. The node removes them when it is reconciled.
            log.warning("the remains of launch %s on node %s are not cleaned up: %s", launch.id, launch.node, error)

    def _run(self) -> None:
        while not self._closing.wait(RECHECK_INTERVAL_S):
            self.recheck()

    def recheck(self) -> None:
        """Read the reports of every live launch, with one call per node, and repeat failed steps."""
        by_node: dict[str, list[tuple[Attempt, Launch]]] = defaultdict(list)
        for attempt in self.attempts.live():
            self._take_back_half(attempt)
            for launch in attempt.launches:
                by_node[launch.node].append((attempt, launch))
        for node, launches in by_node.items():
            self._nodes.worker(node).recheck(partial(self._recheck_node, node, launches))
        live = self._ledger.view().allocations
        for attempt in self.attempts.known():
            if attempt.allocation_id not in live:
                self._forget(attempt.allocation_id)

    def _recheck_node(self, node: str, launches: list[tuple[Attempt, Launch]]) -> None:
        try:
            open_ones = [(attempt, launch) for attempt, launch in launches if not attempt.is_over(launch.rank)]
            self.read(self._nodes.agent(node), open_ones)
        except CorralError as error:
            for attempt, _ in launches:
                self.outcomes.note_trouble(attempt, f"node {node} cannot be asked for its launches", error)
            return
        for attempt, launch in launches:
            try:
                self._look_again(attempt, launch)
            except CorralError as error:
                self.outcomes.note_trouble(attempt, f"launch {launch.id} cannot be looked at", error)

    def _look_again(self, attempt: Attempt, launch: Launch) -> None:
        """Declare a launch lost that nothing claimed in time, and repeat failed steps."""
        job = self.attempts.job_of(attempt)
        agent = self._nodes.agent(launch.node)
        if job is None or attempt.is_over(launch.rank):
            self.outcomes.settle(attempt)
            return
        if job.phase is Phase.STARTING and attempt.report(launch.rank).phase is LaunchPhase.UNKNOWN:
            asked_at = attempt.asked_at.get(launch.rank)
            if asked_at is None:
                self.launch(attempt.allocation_id)
            elif self._clock.monotonic() - asked_at > LAUNCH_DOUBT_S:
                agent.launches.declare_lost(launch.id, ran=False)
                self.read(agent, [(attempt, launch)])
        elif job.phase is Phase.STOPPING:
            self._end(agent, job, attempt, launch)
            self.read(agent, [(attempt, launch)])
        else:
            self.time_limits.renew(attempt, launch.rank)
        self.outcomes.settle(attempt)


class _LaunchNews:
    """The launches with unread reports, by node: the reports of one node are read together."""

    def __init__(self, nodes: Nodes, read: Callable[[str, tuple[str, ...]], None]) -> None:
        self._nodes = nodes
        self._read = read
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, None]] = {}

    def add(self, node: str, launch_ids: Iterable[str]) -> None:
        """Queue the reports of these launches to be read soon."""
        with self._lock:
            waiting = self._waiting.get(node)
            if waiting is not None:
                waiting.update(dict.fromkeys(launch_ids))
                return
            self._waiting[node] = dict.fromkeys(launch_ids)
        if not self._nodes.worker(node).put(partial(self._take, node)):
            with self._lock:
                del self._waiting[node]

    def _take(self, node: str) -> None:
        with self._lock:
            launch_ids = tuple(self._waiting.pop(node, ()))
        self._read(node, launch_ids)


class Checkpoints:
    """Delays the stops of jobs. A timer thread calls `again(allocation_id)` when the grace period of a job is over."""

    def __init__(self, clock: Clock, again: Callable[[str], None]) -> None:
        self._clock = clock
        self._again = again

    def may_end(self, job: Job, attempt: Attempt, rank: int, signal: Callable[[str], None]) -> bool:
        """Return whether a member of the job may be stopped now. The first call for an evicted job starts its grace
        period.

        `signal` sends this checkpoint signal to the member, once.
        """
        word, eviction = job.spec.checkpoint_signal, job.evicted
        if word is None or job.stop_reason is not Phase.PENDING:
            return True
        if eviction is not None and eviction.rule is EvictionRule.FAULT and not eviction.saves:
            return True
        if attempt.checkpoint_until is None:
            attempt.checkpoint_until = self._clock.monotonic() + job.spec.checkpoint_grace_s
            timer = threading.Timer(job.spec.checkpoint_grace_s, self._again, [attempt.allocation_id])
            timer.daemon = True
            timer.start()
        if rank not in attempt.signalled:
            attempt.signalled.add(rank)
            if CheckpointSignal.parse(word).reaches(rank):
                signal(word)
        return self._clock.monotonic() >= attempt.checkpoint_until
