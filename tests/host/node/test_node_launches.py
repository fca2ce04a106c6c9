"""What becomes of a launch between being asked for and running."""

from collections.abc import Callable

import pytest

from corral.clock import SystemClock
from corral.core.model.errors import BackendFailed, CorralError, Refused
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport
from corral.host.node.launches.node_launches import HeardLaunches, NodeLaunches
from corral.host.runtimes.simulated import SimulatedRuntime

Then = Callable[[CorralError | None], None]


class Waiting:
    """Launches whose devices are made ready when the test says so."""

    def __init__(self) -> None:
        self.runtime = SimulatedRuntime(SystemClock())
        self.ready: dict[str, Then] = {}
        self.told: list[str] = []
        heard = HeardLaunches(self.told.append)
        self.runtime.on_event = heard.add
        self.launches = NodeLaunches(
            {"process": self.runtime},
            make_ready=lambda launch, then: self.ready.update({launch.id: then}),
            complete=lambda launch: launch,
            on_change=self.told.append,
            heard=heard,
        )

    def phase(self, launch_id: str) -> LaunchPhase:
        return self.launches.report(launch_id).phase


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def a_launch(number: int = 1, runtime: str = "process") -> Launch:
    return Launch(f"{number}.1", Job(str(number), number, JobSpec("alice", ("true",)), 0.0), (), runtime=runtime)


def test_a_launch_is_preparing_until_its_devices_are_ready(waiting: Waiting) -> None:
    waiting.launches.launch(a_launch())
    assert waiting.phase("1.1") is LaunchPhase.PREPARING
    waiting.ready["1.1"](None)
    assert waiting.phase("1.1") is LaunchPhase.RUNNING
    assert waiting.told == ["1.1"]


def test_a_device_that_is_not_made_ready_fails_the_launch_for_its_reason(waiting: Waiting) -> None:
    waiting.launches.launch(a_launch())
    waiting.ready["1.1"](BackendFailed("no daemon"))
    report = waiting.launches.report("1.1")
    assert (report.phase, report.reason) == (LaunchPhase.DECLARED_LOST, "no daemon")
    waiting.launches.launch(a_launch())
    assert waiting.runtime.ran == []


GIVE_UP: dict[str, Callable[[NodeLaunches], object]] = {
    "stopped": lambda launches: launches.stop("1.1"),
    "not held any more": lambda launches: launches.restore(()),
    "forgotten": lambda launches: launches.forget("1.1"),
}


@pytest.mark.parametrize("give_up", GIVE_UP.values(), ids=GIVE_UP)
def test_what_is_given_up_while_its_devices_are_made_ready_never_runs(
    waiting: Waiting, give_up: Callable[[NodeLaunches], object]
) -> None:
    waiting.launches.launch(a_launch())
    give_up(waiting.launches)
    waiting.ready["1.1"](None)
    assert waiting.runtime.ran == []


def test_a_launch_that_is_held_goes_on_being_prepared(waiting: Waiting) -> None:
    waiting.launches.launch(a_launch())
    assert waiting.launches.restore((a_launch(),)) == {}
    assert waiting.phase("1.1") is LaunchPhase.PREPARING
    waiting.ready["1.1"](None)
    assert waiting.phase("1.1") is LaunchPhase.RUNNING


def test_a_runtime_that_is_not_here_is_refused(waiting: Waiting) -> None:
    with pytest.raises(Refused, match="no runtime 'docker' here"):
        waiting.launches.launch(a_launch(runtime="docker"))


def test_a_record_that_cannot_be_read_makes_a_launch_unknown_for_that_reason(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(launch_id: str) -> None:
        raise BackendFailed("the disk is broken")

    monkeypatch.setattr(waiting.runtime, "report", unreadable)
    report = waiting.launches.report("1.1")
    assert (report.phase, report.reason) == (LaunchPhase.UNKNOWN, "the disk is broken")


def test_what_was_seen_to_run_and_lost_its_record_is_not_taken_for_work_that_never_ran(waiting: Waiting) -> None:
    waiting.launches.launch(a_launch())
    waiting.ready["1.1"](None)
    assert waiting.phase("1.1") is LaunchPhase.RUNNING
    waiting.runtime.lose_record("1.1")
    waiting.launches.stop("1.1")
    assert waiting.phase("1.1") is LaunchPhase.DEAD


def test_what_the_ledger_saw_run_and_has_no_record_is_dead(waiting: Waiting) -> None:
    job = Job("1", 1, JobSpec("alice", ("true",)), 0.0, started_at=5.0)
    waiting.launches.restore((Launch("1.1", job, ()),))
    assert waiting.phase("1.1") is LaunchPhase.DEAD


def test_no_report_says_that_a_launch_failed_before_it_can_say_why(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[LaunchPhase] = []
    declare_lost = waiting.runtime.declare_lost

    def looked_at(launch_id: str, *, ran: bool = False) -> bool:
        found = declare_lost(launch_id, ran=ran)
        seen.append(waiting.phase(launch_id))
        return found

    monkeypatch.setattr(waiting.runtime, "declare_lost", looked_at)
    waiting.launches.launch(a_launch())
    waiting.ready["1.1"](BackendFailed("no daemon"))
    assert seen == [LaunchPhase.PREPARING]
    assert waiting.launches.report("1.1").reason == "no daemon"


class Asked(SimulatedRuntime):
    """A runtime that notes which launches it is asked about."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.asked: list[str] = []

    def report(self, launch_id: str) -> LaunchReport:
        self.asked.append(launch_id)
        return super().report(launch_id)


def with_containers() -> tuple[NodeLaunches, Asked, Asked]:
    processes, containers = Asked(), Asked()
    launches = NodeLaunches(
        {"process": processes, "container": containers},
        make_ready=lambda _, then: then(None),
        complete=lambda launch: launch,
        on_change=lambda _: None,
        heard=HeardLaunches(lambda _: None),
    )
    return launches, processes, containers


def test_the_records_of_what_is_over_are_removed_by_the_runtime_that_ran_it() -> None:
    launches, processes, containers = with_containers()
    launches.launch(a_launch(1, "container"))
    containers.stop("1.1")
    assert launches.report("1.1").phase.over
    launches.forget("1.1")()
    assert containers.launches() == ()
    assert processes.asked == []


def test_the_records_of_a_launch_of_an_earlier_agent_are_removed_whichever_runtime_ran_it() -> None:
    launches, _, containers = with_containers()
    containers.launch(a_launch(1, "container"))
    containers.stop("1.1")
    launches.forget("1.1")()
    assert containers.launches() == ()


def test_records_of_what_still_runs_are_kept() -> None:
    launches, processes, _ = with_containers()
    launches.launch(a_launch())
    launches.forget("1.1")()
    assert processes.launches() == ("1.1",)
