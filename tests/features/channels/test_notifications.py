"""What is due is brought to one node, once that answers and has room, and is due no more when the node has it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.core.lifecycle import commands, ending, starting
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.devices.device import Silence
from corral.core.model.fact import Fact, JobRequeued, JobSubmitted, SilenceObserved
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.notification import Notification
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.ports.ledger import Decided
from corral.features.channels.notifications import Notifications
from corral.features.channels.slice import NoticesSlice
from tests.core.control.cluster import Cluster, until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, "a", "b")
    yield made
    made.close()


class Ends:
    """Jobs that end, and what nodes are given for it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.notifications = Notifications(cluster.ledger, cluster.registry, cluster.clock)

    def write(self, *facts: Fact) -> None:
        self.cluster.ledger.commit(lambda _: Decided(facts, None)).result()

    def submit(self, number: int, **given: Any) -> Job:
        spec = JobSpec(
            "alice", ("train",), name="sft", env=(("HOME", "/home/alice"), ("CORRAL_ARRAY_ID", "3")), notify="mail me",
            workdir="/work", uid=7, gid=8, groups=(9,),
        )  # fmt: skip
        spec = replace(spec, **{name: given.pop(name) for name in ("user", "notify") if name in given})
        job = Job(str(number), number, spec, 1.0, **given)
        self.write(JobSubmitted(job, at=1.0, by="alice"))
        return job

    def run(self, job: Job, node: str | None, code: int = 0) -> None:
        """The job runs on a node, or is cancelled before, and ends."""
        view = self.cluster.ledger.view()
        if node is None:
            self.write(*commands.cancel(view, job, by="bob", at=5.0))
            return
        placement = Placement((Member(node, (Grant(f"{node}-0", 1000),)),))
        self.write(*starting.start(view.jobs[job.id], placement, by="test", at=2.0))
        view = self.cluster.ledger.view()
        phase = Phase.SUCCEEDED if code == 0 else Phase.FAILED
        report = LaunchReport("", LaunchPhase.EXITED, 3.0, 4.0, exit_code=code, ending=phase, reason="why\nnot")
        self.write(*ending.ended(view, view.jobs[job.id], report, by="test", at=5.0, backoff=Backoff()))

    def ended(self, number: int, node: str | None, **given: Any) -> None:
        self.run(self.submit(number, **given), node)

    def look(self) -> None:
        self.notifications.look()
        until(lambda: not self.notifications._busy)

    def given(self, node: str) -> list[str]:
        return [one.job_id for one in self.cluster.nodes[node].notifications.values()]

    def only(self, node: str) -> Notification:
        (one,) = self.cluster.nodes[node].notifications.values()
        return one

    @property
    def due(self) -> list[str]:
        return sorted(self.cluster.ledger.snapshot().of(NoticesSlice).notifications)

    def silence(self, node: str, silence: Silence | None) -> None:
        self.cluster.ledger.observe([SilenceObserved(node, silence)])
        self.write()


@pytest.fixture
def ends(cluster: Cluster) -> Ends:
    return Ends(cluster)


def test_it_goes_to_the_node_where_the_job_ran_with_how_it_ended(ends: Ends) -> None:
    ends.run(ends.submit(1), "b", code=3)
    ends.look()
    assert (ends.given("a"), ends.given("b"), ends.due) == ([], ["1"], [])
    one = ends.only("b")
    assert (one.command, one.user, one.workdir, one.uid, one.gid, one.groups) == (
        *("mail me", "alice", "/work", 7, 8),
        (9,),
    )
    assert dict(one.env) == {
        "CORRAL_EXIT_CODE": "3",
        "CORRAL_JOB_ID": "1",
        "CORRAL_JOB_NAME": "sft",
        "CORRAL_NODE": "b",
        "CORRAL_PHASE": "FAILED",
        "CORRAL_REASON": "why\\nnot",
        "CUDA_VISIBLE_DEVICES": "",
        "HOME": "/home/alice",
        "PYTHONUNBUFFERED": "1",
    }


def test_of_a_job_that_never_ran_any_node_that_answers_takes_it(ends: Ends) -> None:
    ends.silence("a", Silence(1.0, "node a does not answer"))
    ends.ended(1, None)
    ends.look()
    assert ends.given("b") == ["1"]
    assert dict(ends.only("b").env)["CORRAL_PHASE"] == "CANCELLED"
    assert dict(ends.only("b").env)["CORRAL_EXIT_CODE"] == ""


def test_a_node_that_does_not_answer_is_waited_for_and_one_that_is_gone_is_not(ends: Ends) -> None:
    ends.ended(1, "a")
    ends.silence("a", Silence(1.0, "node a does not answer"))
    ends.look()
    assert ends.due == ["1"]
    ends.silence("a", Silence(1.0, "node a is gone", gone=True))
    ends.look()
    assert (ends.given("a"), ends.given("b"), ends.due) == ([], ["1"], [])


def test_a_node_that_may_have_it_is_the_only_one_that_is_asked_again(ends: Ends) -> None:
    ends.ended(1, "a")
    ends.cluster.nodes["a"].fall_silent()
    ends.look()
    ends.silence("a", Silence(1.0, "node a is gone", gone=True))
    ends.look()
    assert (ends.given("b"), ends.due) == ([], ["1"])
    ends.cluster.nodes["a"].answer_again()
    ends.silence("a", None)
    ends.look()
    assert (ends.given("a"), ends.given("b"), ends.due) == (["1"], [], [])


def test_a_server_that_was_killed_before_it_recorded_that_asks_again_for_the_same(ends: Ends) -> None:
    ends.ended(1, "a")
    due = dict(ends.cluster.ledger.snapshot().of(NoticesSlice).notifications)
    again = Notifications(ends.cluster.ledger, ends.cluster.registry, ends.cluster.clock)
    one = ends.notifications._notification("a", ("1", due["1"]))
    ends.look()
    assert again._notification("a", ("1", due["1"])) == one == ends.only("a")


def test_a_user_whose_notifications_fill_the_node_keeps_no_other_waiting(ends: Ends) -> None:
    ends.cluster.nodes["a"].most_notifications = 2
    for number in range(1, 6):
        ends.ended(number, "a")
    ends.ended(6, "a", user="bob")
    ends.look()
    assert (ends.given("a"), ends.due) == (["1", "2", "6"], ["3", "4", "5"])
    ends.look()
    assert ends.due == ["3", "4", "5"]
    ends.cluster.nodes["a"].notifications.clear()
    ends.look()
    assert ends.due == ["5"]


def test_an_array_is_told_once_when_all_of_it_has_ended(ends: Ends) -> None:
    elements = [ends.submit(n, array_id="7", array_index=n) for n in (1, 2, 3)]
    ends.run(elements[0], "a")
    ends.run(elements[1], "b", code=4)
    ends.look()
    assert ends.due == ["7"]
    ends.run(elements[2], "b")
    ends.look()
    assert (ends.given("a"), ends.given("b"), ends.due) == ([], ["3"], [])
    told = dict(ends.only("b").env)
    assert (told["CORRAL_JOB_ID"], told["CORRAL_ARRAY_ID"], told["CORRAL_PHASE"]) == ("7", "7", "FAILED")
    assert (told["CORRAL_EXIT_CODE"], told["CORRAL_REASON"]) == ("4", "1 FAILED, 2 SUCCEEDED")


def test_a_job_that_is_requeued_before_it_was_told_is_told_at_its_next_end_alone(ends: Ends) -> None:
    job = ends.submit(1)
    ends.silence("a", Silence(1.0, "node a does not answer"))
    ends.run(job, "a", code=1)
    found = ends.cluster.ledger.find_job("1")
    assert found is not None
    ends.write(JobRequeued(replace(found, phase=Phase.PENDING, allocation_id=None), at=6.0, by="alice"))
    ends.silence("a", None)
    ends.look()
    assert (ends.given("a"), ends.due) == ([], [])
    ends.run(ends.cluster.ledger.view().jobs["1"], "a")
    ends.look()
    assert dict(ends.only("a").env)["CORRAL_PHASE"] == "SUCCEEDED"
