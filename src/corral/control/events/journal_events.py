"""Reads the journal as events, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from corral.clock import Clock
from corral.control.events.rows_of_facts import JOURNAL_TOPICS
from corral.control.querying.wall_times import in_wall_time
from corral.model.answers.events import Event
from corral.model.fact import AllocationEnded, AllocationMade, JobChanged, JobRequeued, JobSubmitted, JobUpdated
from corral.model.job import Job
from corral.ports.ledger import JournalEntry, Ledger

PAGE_ENTRIES = 200
"""Entries of the journal that are read at once, so that a page is small, and others get their turn."""

_OF_A_JOB = (JobChanged, JobUpdated, AllocationMade, AllocationEnded)


@dataclass(frozen=True, slots=True)
class EventPage:
    """The events of the entries behind `after` up to `upto`, in order.

    `gap`: the journal does not have all of these entries any more, and there are no events here.
    """

    after: int
    upto: int
    events: tuple[Event, ...] = ()
    gap: bool = False


class JournalEvents:
    """Events by their place in the journal. Every topic is in a page; who wants fewer leaves the others out.

    A row has the name and the queue that its job has when the page is read, and everything else as it was then.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    @property
    def position(self) -> int:
        """The place of the newest entry that answers of this server may reflect. Quick."""
        return self._ledger.position

    def page(self, after: int, upto: int) -> EventPage:
        """What is behind `after`, up to `upto` at most, which must be there. Raises LedgerFailed."""
        count = min(PAGE_ENTRIES, upto - after)
        entries = self._ledger.journal(after=after, limit=count)
        if len(entries) < count or entries[-1].sequence != after + count:
            return EventPage(after, upto, gap=True)
        find_job = _Jobs(self._ledger, entries).find
        events = tuple(
            Event(
                topic,
                told.what,
                entry.sequence,
                self._clock.shown(entry.at),
                entry.fact.by,
                in_wall_time(told.rows, self._clock),
            )
            for entry in entries
            for topic, tell in JOURNAL_TOPICS.items()
            if (told := tell(entry.fact, find_job)) is not None
        )
        return EventPage(after, after + count, events)


class _Jobs:
    """The jobs that some entries are about: as they were submitted in these, as they are now, or as they ended."""

    def __init__(self, ledger: Ledger, entries: Sequence[JournalEntry]) -> None:
        facts = [entry.fact for entry in entries]
        self._known: dict[str, Job] = {f.job.id: f.job for f in facts if isinstance(f, JobSubmitted | JobRequeued)}
        live = ledger.view().jobs
        wanted = {fact.about for fact in facts if isinstance(fact, _OF_A_JOB) and fact.about is not None}
        self._known = {**{job_id: live[job_id] for job_id in wanted if job_id in live}, **self._known}
        ended = sorted(wanted - self._known.keys())
        if ended:
            self._known |= {job.id: job for job in ledger.find_jobs(ended)}

    def find(self, job_id: str) -> Job | None:
        return self._known.get(job_id)
