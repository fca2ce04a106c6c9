from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from corral.clock import ManualClock
from corral.core.control.events.journal_events import PAGE_ENTRIES, JournalEvents, Published
from corral.core.control.events.rows_of_facts import JOB_FIELDS, MOST_CHARACTERS, Row, of_devices, of_jobs
from corral.core.control.querying.listing_rows import job_row
from corral.core.model.answers.jobs import JobRow
from corral.core.model.fact import (
    AllocationEnded,
    Delta,
    DeviceCordoned,
    Fact,
    JobChanged,
    JobSubmitted,
    JobUpdated,
    NodeDraining,
)
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.job_update import SpecPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.severity import Severity
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.features.alerts.alert import Alert, AlertSilence
from corral.features.alerts.answers import AlertRow
from corral.features.alerts.event_rows import of_alerts
from corral.features.alerts.facts import AlertFired, AlertForgotten, AlertResolved, AlertsSilenced, SilenceEnded
from corral.wire import to_plain
from tests.core.control.cluster import Cluster, on, until


def told(journal: JournalEvents) -> list[Any]:
    """Everything since the first entry."""
    events: list[Any] = []
    after = 0
    while after < journal.position:
        page = journal.page(after, journal.position)
        assert not page.gap
        events += page.events
        after = page.upto
    return events


def applied(events: list[Any], topic: str = "jobs") -> dict[str, Row]:
    """What a page has that does nothing but to put the new fields into its rows."""
    rows: dict[str, Row] = {}
    for event in events:
        for row in event.rows if event.topic == topic else ():
            rows.setdefault(row["id"], {}).update(to_plain(row))
    return rows


def test_events_applied_in_order_give_the_rows_that_listings_have(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "n1", "n2")
    try:
        ledger = cluster.ledger
        cluster.run(1, on("n1", 0))
        cluster.run(2, on("n1", 1), on("n2", 0, 1))
        cluster.run(3, on("n2", 2), retries=1)
        changes = SpecPatch(name="renamed", priority=2)
        ledger.commit(
            lambda _: Decided((JobUpdated("1", changes, SpecPatch(name="", priority=5), at=3.0, by="alice"),), None)
        ).result()
        ledger.commit(
            lambda _: Decided((JobChanged("3", {"phase": Phase.PENDING, "held": True}, at=4.0, by="alice"),), None)
        ).result()
        until(lambda: ledger.position >= 11)
        rows = applied(told(JournalEvents(ledger, cluster.clock)))
        view = ledger.view()
        for job_id in ("1", "2", "3"):
            job = view.jobs[job_id]
            allocation = None if job.phase is Phase.PENDING else view.allocations[job.allocation_id or ""]
            listed = job_row(job, None, None, allocation)
            # What a job asks for is told when it is submitted, and what it got stays as it was once it waits again.
            assert rows[job_id] == to_plain({name: getattr(listed, name) for name in JOB_FIELDS}), job_id
    finally:
        cluster.close()


def test_what_is_told_later_is_what_was_told_at_once(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "n1")
    try:
        journal = JournalEvents(cluster.ledger, cluster.clock)
        at_once: list[Any] = []
        for number in (1, 2):
            cluster.run(number, on("n1", number))
            for place in range(at_once[-1].id if at_once else 0, journal.position):
                at_once += journal.page(place, place + 1).events
        assert {event.what for event in at_once} >= {"submitted", "changed", "allocated"}
        cluster.ledger.commit(lambda view: Decided(tuple(_ended(view, "1")), None)).result()
        for place in range(at_once[-1].id, journal.position):
            at_once += journal.page(place, place + 1).events
        assert told(journal) == at_once
        assert at_once[-1].what == "freed"
    finally:
        cluster.close()


def _ended(view: View, job_id: str) -> list[Fact]:
    """What becomes of a job that is cancelled and gone."""
    job = view.jobs[job_id]
    ended = JobChanged(job_id, {"phase": Phase.CANCELLED, "ended_at": 9.0}, at=9.0, by="alice")
    return [ended, AllocationEnded(job.allocation_id or "", job_id, at=9.0, by="alice")]


def test_every_field_of_a_row_is_one_of_a_listing() -> None:
    assert set(JOB_FIELDS) < {field.name for field in fields(JobRow)}
    assert not {"command", "params"} & set(JOB_FIELDS)


def no_job(_: str) -> Job | None:
    return None


def test_a_change_that_no_listing_shows_is_told_to_nobody() -> None:
    assert of_jobs(JobChanged("1", {"launch_failures": 2}, at=1.0, by="x"), no_job) is None


def test_a_job_that_nobody_knows_any_more_is_told_by_its_id() -> None:
    found = of_jobs(JobChanged("1", {"held": True}, at=1.0, by="x"), no_job)
    assert found is not None
    assert found.rows == ({"id": "1", "held": True},)


def test_what_waits_again_holds_nothing() -> None:
    found = of_jobs(JobChanged("1", {"phase": Phase.PENDING}, at=1.0, by="x"), lambda _: Job("1", 1, JobSpec("a"), 0.0))
    assert found is not None
    assert (found.rows[0]["nodes"], found.rows[0]["grants"], found.rows[0]["enforcement"]) == ((), (), None)


def test_a_reason_is_cut_where_it_is_long() -> None:
    found = of_jobs(JobChanged("1", {"reason": "x" * 5_000}, at=1.0, by="x"), no_job)
    assert found is not None
    assert len(found.rows[0]["reason"]) == MOST_CHARACTERS


def test_nodes_and_devices_that_take_no_more_are_told() -> None:
    drained = of_devices(NodeDraining("n1", "kernel", 9.0, at=1.0, by="root"), no_job)
    assert drained is not None
    assert drained.rows == ({"node": "n1", "reason": "kernel", "deadline_at": 9.0},)
    assert of_devices(DeviceCordoned("GPU-1", "hot", at=1.0, by="root"), no_job) is not None
    assert of_jobs(DeviceCordoned("GPU-1", "hot", at=1.0, by="root"), no_job) is None


def test_alerts_and_silences_are_told_as_they_are_since_then() -> None:
    alert = Alert("a1", "hot", Severity.WARNING, "device GPU-1", 1.0, 2.0, 91.0, "GPU-1 has 91 C")
    silence = AlertSilence("s1", "rule=hot", "root", 1.0, 9.0)
    for fact, what, known in (
        (AlertFired(alert, at=2.0, by="x"), "fired", {"id": "a1", "sentence": "GPU-1 has 91 C"}),
        (AlertResolved(alert, at=2.0, by="x"), "resolved", {"id": "a1", "severity": "warning"}),
        (AlertForgotten("a1", at=2.0, by="x"), "forgotten", {"id": "a1"}),
        (AlertsSilenced(silence, at=2.0, by="x"), "silenced", {"id": "s1", "until": 9.0}),
        (SilenceEnded("s1", at=2.0, by="x"), "silence_ended", {"id": "s1"}),
    ):
        found = of_alerts(fact, no_job)
        assert found is not None
        assert found.what == what
        assert known.items() <= found.rows[0].items()
    assert of_alerts(JobChanged("1", {"held": True}, at=1.0, by="x"), no_job) is None


def test_the_row_of_an_alert_has_the_fields_of_a_listing() -> None:
    alert = Alert("a1", "hot", Severity.WARNING, "device GPU-1", 1.0, 2.0, 91.0, "it is hot", (("model", "A100"),))
    found = of_alerts(AlertFired(alert, at=2.0, by="x"), no_job)
    assert found is not None
    assert found.rows[0].keys() == {field.name for field in fields(AlertRow)} - {"silenced"}
    assert (found.rows[0]["labels"], found.rows[0]["state"]) == ({"model": "A100"}, "firing")


def test_a_page_is_of_so_many_entries_and_says_where_it_ends(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "n1")
    try:
        many = tuple(DeviceCordoned("GPU-1", str(number), at=1.0, by="root") for number in range(PAGE_ENTRIES + 5))
        cluster.ledger.commit(lambda _: Decided(many, None)).result()
        journal = JournalEvents(cluster.ledger, cluster.clock)
        page = journal.page(0, journal.position)
        assert (page.upto, len(page.events)) == (PAGE_ENTRIES, PAGE_ENTRIES)
        assert journal.page(page.upto, journal.position).events[-1].id == PAGE_ENTRIES + 5
        assert journal.page(page.upto, journal.position + 1).gap
    finally:
        cluster.close()


def test_times_are_told_as_the_wall_clock_shows_them(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "n1")
    try:
        clock = ManualClock(1_000.0)
        job = Job("1", 1, JobSpec("alice", begin_at=900.0), 500.0)
        cluster.ledger.commit(lambda _: Decided((JobSubmitted(job, at=500.0, by="alice"),), None)).result()
        journal = JournalEvents(cluster.ledger, clock)
        (before,) = journal.page(0, 1).events
        clock.step(3_600.0)
        (after,) = journal.page(0, 1).events
        assert (before.at, before.rows[0]["submitted_at"], before.rows[0]["begin_at"]) == (500.0, 500.0, 900.0)
        assert (after.at, after.rows[0]["submitted_at"], after.rows[0]["begin_at"]) == (4_100.0, 4_100.0, 4_500.0)
    finally:
        cluster.close()


def test_what_was_published_is_told_as_the_journal_has_it_and_only_where_it_follows(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "n1")
    try:
        journal = JournalEvents(cluster.ledger, cluster.clock)
        news: list[Published] = []
        views = [cluster.ledger.view()]

        def listen(view: View, deltas: Sequence[Delta]) -> None:
            news.append(Published(cluster.ledger.position, deltas, views[-1]))
            views.append(view)

        cluster.ledger.subscribe(listen)
        cluster.run(1, on("n1", 1))
        cluster.ledger.commit(lambda view: Decided(tuple(_ended(view, "1")), None)).result()
        page = journal.published(0, news)
        assert page == journal.page(0, journal.position)
        facts = [one for one in news if any(isinstance(delta, Fact) for delta in one.deltas)]
        assert journal.published(0, facts[1:]) is None, "some are missing"
        first = facts[0].position
        assert journal.published(first, facts[1:]) == journal.page(first, journal.position)
        unknown = [one._replace(before=View()) for one in facts[1:]]
        assert journal.published(first, unknown) is None, "nobody knows the job"
    finally:
        cluster.close()
