"""Users are told of their jobs once each, whatever is killed between what happened and what was written down."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.config import Settings
from corral.core.lifecycle import commands, ending, starting
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.errors import BackendFailed
from corral.core.model.fact import Fact, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.notification import NotifyOn
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.ports.ledger import Decided
from corral.features.channels.channel_process import Outgoing
from corral.features.channels.delivery import Delivery
from corral.features.channels.job_notices import JobNotices
from corral.features.channels.outbox import Outbox, UserChannel
from corral.features.channels.slice import NoticesSlice
from tests.core.control.cluster import Cluster

ALL = tuple(NotifyOn)


class Told:
    """A ledger in which jobs start and end, and the outbox of a server whose channels are never tried."""

    def __init__(self, root: Path) -> None:
        self.cluster = Cluster(root, "a")
        self.outbox = Outbox(root / "deliveries.db")
        self.outbox.set_user_channel(UserChannel("alice", 7, "jsons://alice.example/x", 1.0))
        self.come()

    def come(self) -> None:
        """A server comes; who is told is somebody that it does not know, so nothing is sent."""
        self.delivery = Delivery(self.outbox, self.cluster.clock, lambda _: None)
        self.delivery.apply(Settings())
        self.delivery._users.put_written = lambda *_: None  # type: ignore[method-assign]
        self.notices = JobNotices(self.cluster.ledger, self.delivery, self.cluster.clock)

    def write(self, *facts: Fact) -> None:
        self.cluster.ledger.commit(lambda _: Decided(facts, None)).result()

    def submit(self, number: int, *events: NotifyOn, **given: Any) -> Job:
        spec = JobSpec(given.pop("user", "alice"), ("train",), name="sft <!here>", notify_on=events)
        job = Job(given.pop("id", str(number)), number, spec, 1.0, **given)
        self.write(JobSubmitted(job, at=1.0, by="alice"))
        return job

    def start(self, job: Job) -> None:
        ledger = self.cluster.ledger
        placement = Placement((Member("a", (Grant("a-0", 500),)),))
        self.write(*starting.start(ledger.view().jobs[job.id], placement, by="test", at=2.0))
        view = ledger.view()
        self.write(*starting.running(view, view.jobs[job.id], 3.0, by="test", at=3.0))

    def end(self, job: Job, code: int = 0) -> None:
        view = self.cluster.ledger.view()
        phase = Phase.SUCCEEDED if code == 0 else Phase.FAILED
        report = LaunchReport("", LaunchPhase.EXITED, 3.0, 64.0, exit_code=code, ending=phase)
        self.write(*ending.ended(view, view.jobs[job.id], report, by="test", at=64.0, backoff=Backoff()))

    def messages(self) -> list[Outgoing]:
        return [one.message for one in self.outbox.waiting("user:alice")]

    @property
    def due(self) -> list[str]:
        return sorted(self.cluster.ledger.snapshot().of(NoticesSlice).notices)

    def close(self) -> None:
        self.delivery.close()
        self.cluster.close()


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    made = Told(tmp_path)
    yield made
    made.close()


def test_a_start_and_an_end_are_told_with_what_a_person_wants_to_know(told: Told) -> None:
    job = told.submit(1, *ALL)
    told.start(job)
    told.end(job, code=3)
    assert told.due == ["end of 1", "start of 1"]
    told.notices.look()
    start, end = told.messages()
    assert told.due == []
    assert (start.fields["name"], start.fields["state"], start.type) == ("job-started", "started", "info")
    assert {key: end.fields[key] for key in ("name", "severity", "state", "subject", "value")} == {
        "name": "job-failed", "severity": "warning", "state": "failed", "subject": "job 1", "value": 3
    }  # fmt: skip
    assert end.fields["sentence"] == (
        "Job 1 (sft <!here>) has ended as FAILED with exit code 3 after 1m 1s. See: corral why 1"
    )
    assert "<!here>" not in end.title + end.body


def test_only_what_was_asked_for_is_told(told: Told) -> None:
    for number, (event, code) in enumerate([(NotifyOn.DONE, 1), (NotifyOn.FAILED, 0), (NotifyOn.DONE, 0)]):
        job = told.submit(number, event)
        told.start(job)
        told.end(job, code)
    never = told.submit(9, NotifyOn.FAILED)
    told.write(*commands.cancel(told.cluster.ledger.view(), never, by="bob", at=5.0))
    told.notices.look()
    assert [(one.fields["subject"], one.fields["state"]) for one in told.messages()] == [
        ("job 9", "failed"), ("job 2", "done")
    ]  # fmt: skip
    assert told.due == []


def test_an_array_is_told_of_once_when_all_of_it_has_ended(told: Told) -> None:
    first, second = (told.submit(n, *ALL, id=f"7_{n}", array_id="7", array_index=n) for n in (1, 2))
    told.start(first)
    told.notices.look()
    told.end(first)
    told.start(second)
    told.notices.look()
    assert [one.fields["state"] for one in told.messages()] == ["started"]
    told.end(second, code=2)
    told.notices.look()
    assert [one.fields["state"] for one in told.messages()] == ["started", "failed"]
    assert told.messages()[1].fields["sentence"].startswith("Job 7 (sft <!here>) has ended as FAILED with exit code 2")
    assert told.due == []


def test_a_server_killed_before_it_recorded_that_tells_nothing_twice_even_if_it_was_delivered(told: Told) -> None:
    job = told.submit(1, NotifyOn.DONE)
    told.start(job)
    told.end(job)
    due = told.cluster.ledger.snapshot().of(NoticesSlice).notices["end of 1"]
    message = told.notices._message("end of 1", due)
    assert message is not None
    told.delivery.send_to_user("alice", message)
    told.outbox.sent("user:alice", [message.id], 70.0)
    told.come()
    told.notices.look()
    assert (told.messages(), told.due) == ([], [])


def test_what_cannot_be_written_down_stays_due(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.write(*commands.cancel(told.cluster.ledger.view(), told.submit(1, NotifyOn.FAILED), by="bob", at=5.0))

    def full(*_: object) -> None:
        raise BackendFailed("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(told.outbox, "take", full)
        told.notices.look()
        assert told.due == ["end of 1"]
    told.notices.look()
    assert (len(told.messages()), told.due) == (1, [])


def test_who_has_no_channel_is_told_nothing_and_nothing_stays_due(told: Told) -> None:
    job = told.submit(1, *ALL, user="bob")
    told.write(*commands.cancel(told.cluster.ledger.view(), job, by="bob", at=5.0))
    told.notices.look()
    assert (told.outbox.channels(), told.due) == ([], [])


def test_an_end_that_is_not_so_any_more_is_not_told(told: Told) -> None:
    job = told.submit(1, NotifyOn.DONE, NotifyOn.FAILED)
    told.start(job)
    told.end(job)
    ended = told.cluster.ledger.find_job("1")
    assert ended is not None
    told.write(JobSubmitted(replace(ended, phase=Phase.PENDING), at=80.0, by="alice"))
    told.notices.look()
    assert (told.messages(), told.due) == ([], [])
