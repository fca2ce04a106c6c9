"""What every runtime keeps, whatever it runs. A runtime joins with a `Rig` and a subclass of `RuntimeContract`."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, Queue

from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport
from corral.core.ports.runtime import Runtime

WITHIN_S = 40.0
OVER = (LaunchPhase.EXITED, LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST)


class Rig(ABC):
    """A runtime, and work for it that lasts until it is let go.

    Attributes:
        events: launch ids that the runtime has told its news of.
        tells_codes: whether it learns how its work ended.
        has_processes: whether its work is processes of this host.
        has_logs: whether it keeps what its work writes.
    """

    runtime: Runtime
    tells_codes = True
    has_processes = True
    has_logs = True

    def __init__(self) -> None:
        self.events: Queue[str] = Queue()

    def spec(self, number: int) -> JobSpec:
        """What the job of this number is."""
        return JobSpec("alice", ("true",))

    def launch_of(self, number: int = 1, *, rank: int = 0, members: int = 1) -> Launch:
        """A launch of work that is there to be let go."""
        job = Job(str(number), number, self.spec(number), 0.0)
        return Launch(f"{number}.1", job, (), rank=rank, members=members)

    @abstractmethod
    def let_go(self, launch: Launch, code: int) -> None:
        """Have the work end with this exit code."""

    @abstractmethod
    def begun(self, launch: Launch) -> int:
        """How often the work has begun."""

    @abstractmethod
    def restart(self, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """A runtime over what the one before has left; `meanwhile` is done while there is none."""

    @abstractmethod
    def log(self, launch: Launch) -> str:
        """What the work has written."""

    @abstractmethod
    def close(self) -> None:
        """End everything."""

    # What tests ask

    def report(self, launch: Launch) -> LaunchReport:
        return self.runtime.report(launch.id)

    def start(self, launch: Launch) -> Launch:
        """Launch it, and wait until it runs."""
        self.runtime.launch(launch)
        self.until(lambda: self.report(launch).phase is LaunchPhase.RUNNING and self.begun(launch))
        return launch

    def end_of(self, launch: Launch) -> LaunchReport:
        self.until(lambda: self.report(launch).phase in OVER)
        return self.report(launch)

    def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline, f"it did not come about within {WITHIN_S} s"
            time.sleep(0.01)

    def told_of(self, launch: Launch) -> None:
        """Wait until the runtime has told its news of the launch, and forget what it has told so far."""
        told: set[str] = set()

        def hear() -> bool:
            try:
                while True:
                    told.add(self.events.get_nowait())
            except Empty:
                return launch.id in told

        self.until(hear)


class RuntimeContract:
    """The claims. A subclass has a fixture `rig`."""

    def test_nothing_is_known_of_a_launch_that_nobody_asked_for(self, rig: Rig) -> None:
        assert rig.report(rig.launch_of()).phase is LaunchPhase.UNKNOWN
        assert rig.runtime.launches() == ()

    def test_a_launch_runs_and_ends_as_its_work_does(self, rig: Rig) -> None:
        launch = rig.start(rig.launch_of())
        rig.told_of(launch)
        assert rig.runtime.launches() == (launch.id,)
        rig.let_go(launch, 3)
        rig.told_of(launch)
        report = rig.end_of(launch)
        assert report.launch_id == launch.id
        if rig.tells_codes:
            assert (report.phase, report.exit_code, report.ending) == (LaunchPhase.EXITED, 3, Phase.FAILED)
            assert report.started_at is not None
            assert report.ended_at is not None
            assert report.started_at <= report.ended_at

    def test_a_launch_that_is_asked_for_twice_runs_once(self, rig: Rig) -> None:
        launch = rig.launch_of()
        rig.runtime.launch(launch)
        rig.start(launch)
        rig.let_go(launch, 0)
        rig.end_of(launch)
        rig.runtime.launch(launch)
        assert rig.report(launch).phase in OVER
        assert rig.begun(launch) == 1

    def test_a_launch_that_is_declared_lost_never_runs(self, rig: Rig) -> None:
        launch = rig.launch_of()
        assert rig.runtime.declare_lost(launch.id)
        rig.runtime.launch(launch)
        assert rig.report(launch).phase is LaunchPhase.DECLARED_LOST
        rig.let_go(launch, 0)
        assert rig.begun(launch) == 0

    def test_to_stop_what_nobody_asked_for_is_nothing(self, rig: Rig) -> None:
        launch = rig.launch_of()
        rig.runtime.stop(launch.id)
        assert rig.report(launch).phase is LaunchPhase.UNKNOWN

    def test_what_runs_is_not_lost(self, rig: Rig) -> None:
        launch = rig.start(rig.launch_of())
        assert not rig.runtime.declare_lost(launch.id)
        assert rig.report(launch).phase is LaunchPhase.RUNNING

    def test_what_ran_and_left_no_trace_is_dead(self, rig: Rig) -> None:
        launch = rig.launch_of()
        assert not rig.runtime.declare_lost(launch.id, ran=True)
        assert rig.end_of(launch).phase is LaunchPhase.DEAD

    def test_a_launch_that_is_stopped_was_cancelled(self, rig: Rig) -> None:
        launch = rig.start(rig.launch_of())
        rig.runtime.stop(launch.id)
        rig.runtime.stop(launch.id)
        assert rig.end_of(launch).ending is Phase.CANCELLED
        rig.told_of(launch)

    def test_work_that_has_run_longer_than_a_new_time_limit_ends_and_other_work_goes_on(self, rig: Rig) -> None:
        brief, lasting = rig.start(rig.launch_of(1)), rig.start(rig.launch_of(2))
        rig.runtime.set_time_limit(lasting.id, 3600.0)
        rig.runtime.set_time_limit(brief.id, 0.001)
        time.sleep(0.002)
        rig.runtime.set_time_limit(brief.id, 0.001)
        assert rig.end_of(brief).ending is Phase.TIMED_OUT
        rig.told_of(brief)
        assert rig.report(lasting).phase is LaunchPhase.RUNNING

    def test_a_time_limit_of_what_nobody_asked_for_is_nothing(self, rig: Rig) -> None:
        launch = rig.launch_of()
        rig.runtime.set_time_limit(launch.id, 1.0)
        assert rig.report(launch).phase is LaunchPhase.UNKNOWN
        assert rig.runtime.launches() == ()

    def test_what_runs_goes_on_when_its_server_restarts_and_does_not_begin_again(self, rig: Rig) -> None:
        launch = rig.start(rig.launch_of())
        rig.restart()
        rig.runtime.launch(launch)
        rig.until(lambda: rig.report(launch).phase is LaunchPhase.RUNNING)
        assert rig.begun(launch) == 1
        rig.runtime.stop(launch.id)
        assert rig.end_of(launch).ending is Phase.CANCELLED

    def test_an_end_that_no_server_saw_is_reported_by_the_next(self, rig: Rig) -> None:
        launch = rig.start(rig.launch_of())
        rig.restart(meanwhile=lambda: rig.let_go(launch, 5))
        rig.runtime.launch(launch)
        report = rig.end_of(launch)
        assert rig.begun(launch) == 1
        if rig.tells_codes:
            assert report.exit_code == 5

    def test_what_is_forgotten_is_gone(self, rig: Rig) -> None:
        launch = rig.start(rig.launch_of())
        rig.let_go(launch, 0)
        rig.end_of(launch)
        rig.runtime.forget(launch.id)
        rig.runtime.forget(launch.id)
        assert rig.report(launch).phase is LaunchPhase.UNKNOWN
        assert rig.runtime.launches() == ()

    def test_one_launch_is_no_other(self, rig: Rig) -> None:
        first, second = rig.start(rig.launch_of(1)), rig.start(rig.launch_of(2))
        rig.runtime.stop(first.id)
        rig.end_of(first)
        assert rig.report(second).phase is LaunchPhase.RUNNING

    def test_its_processes_are_those_of_its_work_with_all_that_descend_from_it(self, rig: Rig) -> None:
        launch = rig.start(rig.launch_of())
        if not rig.has_processes:
            assert rig.runtime.pids(launch.id) == frozenset()
            return
        rig.until(lambda: len(rig.runtime.pids(launch.id)) >= 2)
        assert rig.runtime.lineage(launch.id).root is not None
        rig.runtime.stop(launch.id)
        rig.end_of(launch)
        assert rig.runtime.pids(launch.id) == frozenset()


class MembersContract:
    """The claims of a runtime that can run the members of gangs."""

    def test_members_of_a_gang_are_launches_apart(self, rig: Rig) -> None:
        first, second = (rig.start(rig.launch_of(rank=rank, members=2)) for rank in range(2))
        assert rig.runtime.launches() == (first.id, second.id)
        rig.runtime.stop(second.id)
        assert rig.end_of(second).launch_id == second.id
        assert rig.report(first).phase is LaunchPhase.RUNNING

    def test_each_member_has_a_log_of_its_own(self, rig: Rig) -> None:
        members = [replace(rig.launch_of(rank=rank, members=2), notes=(f"I am {rank}",)) for rank in range(2)]
        for launch in members:
            rig.start(launch)
            rig.let_go(launch, 0)
            rig.end_of(launch)
        if rig.has_logs:
            for rank, launch in enumerate(members):
                assert f"I am {rank}" in rig.log(launch)
                assert f"rank {rank} writes" in rig.log(launch)
                assert f"rank {1 - rank}" not in rig.log(launch)
