"""What is answered: listings, why a job waits or what became of it, what would be, and what devices there are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.clock import ManualClock
from corral.core.control.querying import predictions
from corral.core.control.querying.explanations import Explanations
from corral.core.control.querying.outlooks import Outlooks
from corral.core.control.querying.predictions import Predictions
from corral.core.control.querying.queries import Queries
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.watching.failure_notes import FailureNotes
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.lifecycle import commands, ending, starting, stopping
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.answers.job_details import WaitPart
from corral.core.model.answers.jobs import GrantRow
from corral.core.model.answers.site import ServerInfo
from corral.core.model.devices.device import DeviceSample
from corral.core.model.errors import NotFound, Refused
from corral.core.model.fact import Fact
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.job_sort import JobSort
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.plan import Evict, Plan, Wait, WaitReason
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.runs.prediction import Alike, Prediction
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, JobQuery
from corral.core.ports.monitoring import UseOfAlike
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, submitted


class Lab:
    """Nodes a and b of two GPUs each, a ledger, and decisions that are made when a test says so."""

    def __init__(self, path: Path) -> None:
        self.ledger: SqlLedger = open_ledger(f"sqlite:///{path / 'ledger.db'}")
        self.ledger.observe(observed(box("a", 2), box("b", 2)))  # type: ignore[arg-type]
        self.write(lambda _: [])
        self.clock = ManualClock(T0)
        self.plan = Plan(0)
        self.obstacle: str | None = None
        self.spent: tuple[tuple[str, float], ...] = ()
        self.troubles: dict[str, str] = {}
        self.left_behind: dict[str, str] = {}
        self.samples: dict[str, DeviceSample] = {}
        self.planners = 0
        outlooks = Outlooks(self.ledger, self.clock, self._planner)
        predictions = Predictions(lambda spec: self.use, self._planner)
        self.use = UseOfAlike()
        self.queries = Queries(
            self.ledger,
            self,
            self,
            self.clock,
            asking=RequestRules(),
            outlooks=outlooks,
            predictions=predictions,
            about=lambda: ServerInfo(version="1"),
            trouble=self.troubles.get,
            failed_as=lambda job: None,
        )
        self.explanations = Explanations(
            self.ledger,
            self,
            self.clock,
            self.queries,
            outlooks=outlooks,
            predictions=predictions,
            log_ends=FailureNotes(self.ledger, lambda job, rank: None, later=id, on_node=lambda job, task: None),
            trouble=self.troubles.get,
            may_still_run=self.left_behind.get,
        )

    def _planner(self, view: View) -> Planner:
        self.planners += 1
        return Planner(view)

    def waited(self, job: Job) -> tuple[tuple[str, float], ...]:
        """As a controller says it."""
        return self.spent

    def latest(self) -> dict[str, DeviceSample]:
        """As a hub says it."""
        return self.samples

    def write(self, facts: Callable[[View], Sequence[object]]) -> None:
        self.ledger.commit(lambda view: Decided(tuple(facts(view)), None)).result()  # type: ignore[arg-type]

    def submit(self, *jobs: Job) -> None:
        self.write(lambda _: submitted(*jobs))

    def decide(self) -> None:
        """A plan is made; its starts are not committed."""
        self.plan = Planner(self.ledger.view()).plan(self.clock.now())

    def start(self, job_id: str, node: str, *indices: int) -> None:
        """The job gets these GPUs of a node, and is STARTING."""
        placement = Placement((Member(node, tuple(Grant(f"GPU-{node}-{index}", 1000) for index in indices)),))
        self.step(job_id, lambda _, job, at: starting.start(job, placement, by="test", at=at))

    def run(self, job_id: str, node: str, *indices: int) -> None:
        """The job gets these GPUs of a node, and runs."""
        self.start(job_id, node, *indices)
        self.step(job_id, lambda view, job, at: starting.running(view, job, at, by="test", at=at))

    def end(self, job_id: str, report: LaunchReport) -> None:
        """The job ends as the report of its launch says."""
        self.step(job_id, lambda view, job, at: ending.ended(view, job, report, by="test", at=at, backoff=Backoff()))

    def step(self, job_id: str, step: Callable[[View, Job, float], Sequence[Fact]]) -> None:
        self.write(lambda view: step(view, view.jobs[job_id], self.clock.now()))

    def listed(self, *, active_only: bool = True, **query: Any) -> list[str]:
        rows, _ = self.queries.jobs(JobQuery(**query), active_only=active_only)
        return [row.id for row in rows]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.ledger.close()


def exited(ending: Phase, exit_code: int | None = None) -> LaunchReport:
    return LaunchReport("", LaunchPhase.EXITED, ending=ending, exit_code=exit_code, ended_at=T0 + 60.0)


def element(number: int, index: int, **options: Any) -> Job:
    """An element of array 10."""
    return replace(job(number, **options), id=f"10_{index}", array_id="10", array_index=index)


# Finding


def test_a_job_is_found_in_any_phase_and_what_there_is_not_is_not(lab: Lab) -> None:
    lab.submit(job(1), job(2))
    lab.step("1", lambda view, job, at: commands.cancel(view, job, by="alice", at=at))
    assert [lab.queries.find(one).phase for one in ("1", "2")] == [Phase.CANCELLED, Phase.PENDING]
    with pytest.raises(NotFound, match="there is no job 3"):
        lab.queries.find("3")


def test_an_id_names_a_job_or_all_elements_of_an_array(lab: Lab) -> None:
    lab.submit(job(1), element(11, 0), element(12, 1))
    assert [[one.id for one in lab.queries.named(name)] for name in ("1", "10", "10_1", "3")] == [
        ["1"], ["10_0", "10_1"], ["10_1"], [],
    ]  # fmt: skip
    with pytest.raises(NotFound, match="10 is an array; name one of its elements, such as 10_0"):
        lab.queries.find("10")


def test_what_is_waited_for_has_ended_when_all_of_it_has(lab: Lab) -> None:
    lab.submit(job(1), element(11, 0), element(12, 1))

    def ended(*ids: str) -> tuple[bool, list[str]]:
        over, rows = lab.queries.ended(ids)
        return over, [row.id for row in rows]

    def cancel(job_id: str) -> None:
        lab.step(job_id, lambda view, job, at: commands.cancel(view, job, by="alice", at=at))

    cancel("10_0")
    assert ended("10") == (False, ["10_0", "10_1"])
    assert (lab.queries.is_live("10"), lab.queries.is_live("10_0"), lab.queries.is_live("10_1")) == (True, False, True)
    cancel("10_1")
    assert (ended("10"), ended("10_1", "1"), lab.queries.is_live("10")) == (
        (True, ["10_0", "10_1"]), (False, ["10_1", "1"]), False,
    )  # fmt: skip
    with pytest.raises(NotFound, match="there is no job 3"):
        ended("1", "3")


# Listings


def test_a_listing_is_newest_first_and_of_active_jobs_unless_all_are_asked_for(lab: Lab) -> None:
    lab.submit(job(1), job(2), job(3))
    lab.step("2", lambda view, job, at: commands.cancel(view, job, by="alice", at=at))
    assert lab.listed() == ["3", "1"]
    assert lab.listed(active_only=False) == ["3", "2", "1"]


@pytest.mark.parametrize("active_only", [True, False])
def test_a_listing_is_narrowed_by_each_of_its_conditions(lab: Lab, active_only: bool) -> None:
    lab.submit(job(1), job(2, user="bob"), job(3, name="train", queue="night"), element(11, 0))
    lab.run("1", "a", 0)
    for query, found in (
        ({"users": ("bob",)}, ["2"]),
        ({"users": ("bob", "carol")}, ["2"]),
        ({"name": "train"}, ["3"]),
        ({"name": "x,tr*"}, ["3"]),
        ({"queues": ("night",)}, ["3"]),
        ({"queues": ("default",), "users": ("bob", "alice")}, ["10_0", "2", "1"]),
        ({"since": T0 + 3.0}, ["10_0", "3"]),
        ({"since": T0 + 3.0, "limit": 1}, ["10_0"]),
        ({"phases": (Phase.RUNNING, Phase.STARTING)}, ["1"]),
        ({"array_id": "10"}, ["10_0"]),
        ({"before_sequence": 3}, ["2", "1"]),
        ({"users": ("bob",), "name": "train"}, []),
    ):
        assert lab.listed(active_only=active_only, **query) == found, query


@pytest.mark.parametrize("active_only", [True, False])
def test_pages_follow_each_other_without_gap_or_repeat_also_while_jobs_come(lab: Lab, active_only: bool) -> None:
    lab.submit(*(job(number) for number in range(1, 6)))
    seen: list[str] = []
    below: int | None = None
    for page in range(3):
        rows, below = lab.queries.jobs(JobQuery(limit=2, before_sequence=below), active_only=active_only)
        seen += [row.id for row in rows]
        lab.submit(job(100 + page))
    assert (seen, below) == (["5", "4", "3", "2", "1"], None)


def test_a_row_says_in_one_word_why_a_job_waits(lab: Lab) -> None:
    lab.submit(job(1, 2), job(2, 2), job(3, 2), job(4, 1, user="bob"), job(5, held=True), job(6, waits_for=("1",)))
    lab.submit(job(7, eligible_at=T0 + 60.0), job(8, 3))
    for number, node in ((1, "a"), (2, "b")):
        lab.run(str(number), node, 0, 1)
    lab.plan = Plan(0, waits=(Wait("3", WaitReason.RESOURCES, 1), Wait("4", WaitReason.PRIORITY, 2, behind="3")))
    rows, _ = lab.queries.jobs(JobQuery(), active_only=True)
    assert {row.id: row.wait for row in rows} == {
        "1": None, "2": None, "3": "Resources", "4": "Priority", "5": "Held", "6": "Dependency", "7": "BeginTime",
        "8": "NotReached",
    }  # fmt: skip


def test_jobs_alike_wait_for_the_reason_that_the_plan_has_of_one_of_them(lab: Lab) -> None:
    lab.submit(job(1, 2), job(2, 2), job(3, 1))
    lab.plan = Plan(0, waits=(Wait("1", WaitReason.RESOURCES, 1, expected_start=T0 + 60.0),))
    rows, _ = lab.queries.jobs(JobQuery(), active_only=True)
    assert [(row.id, row.wait, row.expected_start) for row in rows] == [
        ("3", "NotReached", None), ("2", "Resources", None), ("1", "Resources", T0 + 60.0),
    ]  # fmt: skip


def test_while_there_is_an_obstacle_what_no_plan_looked_at_waits_for_the_disk(lab: Lab) -> None:
    lab.submit(job(1), job(2, held=True))
    lab.obstacle = "the disk is full"
    rows, _ = lab.queries.jobs(JobQuery(), active_only=True)
    assert {row.id: row.wait for row in rows} == {"1": "Disk", "2": "Held"}


def test_expected_starts_are_worked_out_for_all_that_wait_only_on_request(lab: Lab) -> None:
    lab.submit(job(1, 2, time_limit_s=600.0), job(2, 2, time_limit_s=900.0), job(3, 2, time_limit_s=60.0), job(4, 2))
    lab.run("1", "a", 0, 1)
    lab.run("2", "b", 0, 1)
    starts = {
        asked: {row.id: row.expected_start for row in lab.queries.jobs(JobQuery(), active_only=True, starts=asked)[0]}
        for asked in (False, True)
    }
    assert starts[False] == dict.fromkeys("1234")
    assert (starts[True]["3"], starts[True]["4"], starts[True]["1"]) == (T0 + 600.0, T0 + 660.0, None)


def test_all_answers_of_one_view_share_one_planner_and_one_forecast(lab: Lab) -> None:
    """Each takes longer the more jobs wait: a tenth of a second with 10,000."""
    lab.submit(*(job(number, 2, time_limit_s=60.0) for number in range(1, 21)))
    positions = [lab.explanations.of(str(number)).position for number in range(1, 21)]
    rows = [lab.queries.jobs(JobQuery(limit=5), active_only=True, starts=True) for _ in range(4)]
    assert positions == list(range(1, 21))
    assert all(row == rows[0] for row in rows)
    assert lab.planners == 2


def test_a_job_that_has_just_come_is_explained_by_what_is_known_then(lab: Lab) -> None:
    lab.submit(job(1, 2))
    assert lab.explanations.of("1").position == 1
    lab.submit(job(2, 2))
    assert lab.explanations.of("2").position == 2


@pytest.mark.parametrize("active_only", [True, False])
def test_a_listing_has_its_first_jobs_in_the_order_that_is_asked_for(lab: Lab, active_only: bool) -> None:
    lab.submit(*(job(number, priority=9 - number % 3) for number in range(1, 7)))
    sort = JobSort("priority", descending=False)
    assert lab.listed(active_only=active_only, sort=sort) == ["5", "2", "4", "1", "6", "3"]
    assert lab.listed(active_only=active_only, sort=sort, limit=3) == ["5", "2", "4"]


def test_an_ended_job_says_what_it_had_and_where(lab: Lab) -> None:
    lab.submit(job(1, share_milli=500), job(2, 0), job(3))
    for job_id, member in (("1", Member("b", (Grant("GPU-b-1", 500, 40_960),))), ("2", Member("a", ()))):
        place = Placement((member,))
        lab.step(job_id, lambda _, one, at, place=place: starting.start(one, place, by="test", at=at))  # type: ignore[misc]
        lab.end(job_id, exited(Phase.SUCCEEDED, 0))
    lab.run("3", "a", 0)
    lab.end("3", exited(Phase.FAILED, 1))
    rows = {row.id: row for row in lab.queries.jobs(JobQuery(), active_only=False)[0]}
    assert (rows["1"].grants, rows["1"].gpus_milli, rows["1"].nodes) == (
        (GrantRow("GPU-b-1", 500, 40_960),),
        500,
        ("b",),
    )
    assert (rows["2"].grants, rows["2"].nodes) == ((), ("a",))
    (grant,) = rows["3"].grants
    assert (grant.uuid, grant.share_milli, rows["3"].nodes) == ("GPU-a-0", 1000, ("a",))
    for job_id, row in rows.items():
        assert lab.queries.row(lab.queries.find(job_id)) == row


# Why


def hold(lab: Lab) -> None:
    lab.step("1", lambda _, job, at: commands.hold(job, True, by="alice", at=at))


def cancel(lab: Lab) -> None:
    lab.step("1", lambda view, job, at: commands.cancel(view, job, by="alice", at=at))


def run(lab: Lab) -> None:
    lab.run("1", "a", 0)
    lab.clock.advance(60.0)


def run_and(step: Callable[[Lab], None]) -> Callable[[Lab], None]:
    def both(lab: Lab) -> None:
        run(lab)
        step(lab)

    return both


def ends(report: LaunchReport) -> Callable[[Lab], None]:
    return run_and(lambda lab: lab.end("1", report))


def times_out(lab: Lab) -> None:
    lab.step("1", lambda _, job, at: stopping.stop(job, Phase.TIMED_OUT, "its time limit of 1m", by="test", at=at))
    lab.end("1", exited(Phase.CANCELLED, 143))


def make_room(lab: Lab) -> None:
    lab.step("1", lambda _, job, at: stopping.evict(job, Evict("1", "2", "room for job 2"), by="test", at=at))


@pytest.mark.parametrize(
    ("come_to", "phase", "says"),
    [
        (hold, Phase.PENDING, "job 1 waits: it is on hold; `corral release 1` lets it start."),
        (lambda lab: lab.start("1", "a", 0), Phase.STARTING, "job 1 has its devices and is being started"),
        (run, Phase.RUNNING, "job 1 has been running for 1m"),
        (run_and(cancel), Phase.STOPPING, "job 1 is being stopped: cancelled by alice"),
        (run_and(make_room), Phase.STOPPING, "job 1 is being stopped, and goes back to its queue."),
        (ends(exited(Phase.SUCCEEDED, 0)), Phase.SUCCEEDED, "job 1 succeeded after 1m"),
        (ends(exited(Phase.FAILED, 3)), Phase.FAILED, "job 1 failed with exit code 3 after 1m"),
        (cancel, Phase.CANCELLED, "job 1 was cancelled by alice"),
        (run_and(times_out), Phase.TIMED_OUT, "job 1 reached its time limit of 1m after 1m"),
        (ends(LaunchReport("", LaunchPhase.DEAD, reason="node a is gone")), Phase.LOST, "job 1 was lost after 1m"),
    ],
)  # fmt: skip
def test_why_has_a_sentence_for_every_phase(lab: Lab, come_to: Callable[[Lab], None], phase: Phase, says: str) -> None:
    lab.submit(job(1), job(2))
    come_to(lab)
    answer = lab.explanations.of("1")
    assert (answer.phase, answer.reason[: len(says)]) == (phase, says)


def test_why_a_job_waits_says_what_it_waits_for_when_it_starts_and_with_what_it_would_start_now(lab: Lab) -> None:
    lab.submit(job(1, 2, time_limit_s=600.0), job(2, time_limit_s=900.0), job(3, 2))
    lab.run("1", "a", 0, 1)
    lab.run("2", "b", 0)
    lab.decide()
    answer = lab.explanations.of("3")
    assert (answer.position, answer.expected_start, answer.expected_start_is) == (1, T0 + 600.0, Certainty.PROMISE)
    assert answer.starts_now_with == "--gpus 1"
    assert "With --gpus 1 it would start now." in answer.reason


def test_why_a_job_waits_for_another_names_it(lab: Lab) -> None:
    lab.submit(job(1), job(2, after=("1",), waits_for=("1",)))
    assert "for job 1" in lab.explanations.of("2").reason


def test_while_there_is_an_obstacle_it_is_the_first_reason_and_no_start_is_expected(lab: Lab) -> None:
    lab.submit(job(1), job(2, held=True))
    lab.obstacle = "the disk is full"
    answer = lab.explanations.of("1")
    assert answer.reason == "job 1 waits because nothing can start now: the disk is full."
    assert (answer.obstacle, answer.expected_start, answer.starts_now_with) == ("the disk is full", None, None)
    assert "the disk is full. After that: job 2 waits: it is on hold" in lab.explanations.of("2").reason


def test_why_tells_what_stands_in_the_way_of_a_launch_and_which_old_attempt_may_still_run(lab: Lab) -> None:
    lab.submit(job(1), job(2))
    lab.start("1", "a", 0)
    lab.troubles["1.1"] = "launch of 1.1 failed: no space left"
    lab.left_behind["1"] = lab.left_behind["2"] = "attempt 0 may still run on node b"
    assert lab.explanations.of("1").reason == (
        "job 1 has its devices and is being started; launch of 1.1 failed: no space left; "
        "attempt 0 may still run on node b"
    )
    assert lab.queries.row(lab.queries.find("1")).reason == "launch of 1.1 failed: no space left"
    assert lab.explanations.of("2").reason.endswith(" Attempt 0 may still run on node b.")


def test_why_says_how_the_wait_was_spent_and_what_is_allocated(lab: Lab) -> None:
    lab.submit(job(1))
    lab.spent = (("Resources", 60.0), ("Held", 5.0))
    answer = lab.explanations.of("1")
    assert (answer.waited, answer.holds) == ((WaitPart("Resources", 60.0), WaitPart("Held", 5.0)), None)


def test_why_of_an_array_counts_its_elements_and_goes_on_with_the_first_that_waits(lab: Lab) -> None:
    lab.submit(*(element(11 + index, index) for index in range(4)))
    lab.run("10_0", "a", 0)
    lab.run("10_1", "a", 1)
    lab.end("10_1", exited(Phase.SUCCEEDED, 0))
    answer = lab.explanations.of("10")
    counts = "array 10 has 4 elements: 2 waiting, 1 running, 1 succeeded"
    assert (answer.id, answer.phase, answer.reason[: len(counts)]) == ("10", Phase.PENDING, counts)
    assert "Next, 10_2: " in answer.reason
    for index in (2, 3):
        lab.step(f"10_{index}", lambda view, job, at: commands.cancel(view, job, by="alice", at=at))
    answer = lab.explanations.of("10")
    assert (answer.phase, answer.reason) == (
        Phase.RUNNING, "array 10 has 4 elements: 1 running, 1 succeeded, 2 cancelled",
    )  # fmt: skip


# What would be


def asked(gpus: int, **options: Any) -> Submission:
    return Submission(("true",), request=Request(devices=gpus), **options)


def test_a_dry_run_names_the_devices_and_nodes_that_a_submission_would_get_now(lab: Lab) -> None:
    lab.submit(job(1))
    lab.run("1", "a", 0)
    answer = lab.queries.dry_run(asked(2), "alice")
    assert (answer.starts_now, [(one.node, one.index, one.uuid) for one in answer.devices]) == (
        True, [("b", 0, "GPU-b-0"), ("b", 1, "GPU-b-1")],
    )  # fmt: skip


def test_a_dry_run_of_what_would_wait_says_until_when_and_what_would_start_now(lab: Lab) -> None:
    lab.submit(job(1, 2, time_limit_s=600.0), job(2))
    lab.run("1", "a", 0, 1)
    lab.run("2", "b", 0)
    answer = lab.queries.dry_run(asked(2), "alice")
    assert (answer.starts_now, answer.possible, answer.devices, answer.expected_start) == (False, True, (), T0 + 600.0)
    assert answer.nearest is not None
    assert "--gpus 1" in answer.nearest.text


def test_a_dry_run_of_what_no_node_could_ever_serve_says_so(lab: Lab) -> None:
    answer = lab.queries.dry_run(asked(3), "alice")
    assert (answer.starts_now, answer.possible) == (False, False)
    assert answer.reason


def test_a_dry_run_of_what_follows_a_job_that_failed_would_be_cancelled(lab: Lab) -> None:
    lab.submit(job(1))
    lab.run("1", "a", 0)
    lab.end("1", exited(Phase.FAILED, 1))
    answer = lab.queries.dry_run(asked(1, after=("1",)), "alice")
    assert (answer.starts_now, answer.possible) == (False, False)
    assert answer.reason.startswith("it would be cancelled at once: job 1, which it was to follow, failed")


def test_a_dry_run_refuses_as_a_submission_and_writes_nothing(lab: Lab) -> None:
    with pytest.raises(Refused):
        lab.queries.dry_run(Submission(()), "alice")
    lab.queries.dry_run(asked(1, array=ArraySpec((0, 1))), "alice")
    assert lab.ledger.journal() == ()


# Devices


def test_devices_are_listed_by_node_and_index_with_what_is_on_them(lab: Lab) -> None:
    lab.submit(job(1))
    lab.run("1", "b", 0)
    lab.samples["GPU-a-1"] = DeviceSample("GPU-a-1", T0, utilization_pct=7)
    rows = lab.queries.devices()
    assert [(row.node, row.index) for row in rows] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [row.state for row in rows] == ["free", "free", "allocated", "free"]
    assert [[holder.job for holder in row.holders] for row in rows] == [[], [], ["1"], []]
    assert [row.utilization_pct for row in rows] == [None, 7, None, None]


@pytest.mark.parametrize("name", ["GPU-b-1", "b:1"])
def test_a_device_of_several_nodes_is_named_by_uuid_or_with_its_node(lab: Lab, name: str) -> None:
    assert lab.queries.uuid_of(name) == "GPU-b-1"


def test_an_index_alone_is_refused_where_several_nodes_have_it(lab: Lab) -> None:
    with pytest.raises(Refused, match="several nodes have a device 1; name one of a:1, b:1"):
        lab.queries.uuid_of("1")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("7", "there is no device 7; the indices are 0, 1"),
        ("a:7", "there is no device 7 on node a; the indices are 0, 1"),
        ("c:0", "there is no device c:0"),
        ("GPU-", "there is no device GPU-"),
        ("", "there is no device "),
    ],
)
def test_what_names_no_device_or_more_than_one_is_not_found(lab: Lab, name: str, why: str) -> None:
    with pytest.raises(NotFound, match=why):
        lab.queries.uuid_of(name)


def test_a_server_says_how_many_devices_it_has_and_what_is_in_the_way(lab: Lab) -> None:
    assert lab.queries.server() == ServerInfo(version="1", devices=4)
    lab.obstacle = "the disk is full"
    assert lab.queries.server().obstacle == "the disk is full"


def test_a_job_that_waits_is_offered_less_memory_in_its_reason_a_dry_run_and_its_first_notes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each GPU another job has 20G, and the last nine jobs of the command used 30G."""
    for number, (node, index) in enumerate((("a", 0), ("a", 1), ("b", 0), ("b", 1)), start=1):
        lab.submit(job(number, user="bob", share_milli=250, memory_mib=20_480))
        placement = Placement((Member(node, (Grant(f"GPU-{node}-{index}", 250, 20_480),)),))
        lab.step(str(number), lambda _, job, at, where=placement: starting.start(job, where, by="test", at=at))  # type: ignore[misc]
    lab.use = UseOfAlike(Prediction(Alike.COMMAND, 9, 30_000, 30_720, 30_720))
    asked = Submission(command=("true",), name="train", request=Request(min_memory_mib=81_920))
    dry = lab.queries.dry_run(asked, "alice")
    lab.submit(job(5, name="train", min_memory_mib=81_920))
    lab.decide()
    offered = (
        "It asks for 80G; the last 9 jobs of this command used at most 30G: "
        "--gpu-mem 36G without --min-memory would start now on a."
    )
    assert lab.queries.notes("5") == ()
    monkeypatch.setattr(predictions, "MOST_NODES", 2)
    assert lab.queries.notes("5") == (offered,)
    explained = lab.explanations.of("5")
    assert explained.reason.endswith(offered)
    assert dry.notes == (offered,)
    for answer in (explained, dry):
        assert answer.predicted is not None
        assert (answer.predicted.starts_now_with, answer.predicted.node) == ("--gpu-mem 36G without --min-memory", "a")
    lab.obstacle = "the disk is full"
    assert "--gpu-mem" not in lab.explanations.of("5").reason
    lab.use = UseOfAlike()
    assert lab.queries.notes("5") == ()
    assert lab.queries.dry_run(asked, "alice").predicted is None
