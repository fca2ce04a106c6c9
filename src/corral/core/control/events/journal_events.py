"""Reads the journal as events, page by page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corral.clock import Clock
from corral.core.control.events.rows_of_facts import CORE_TOPICS, RowsOfFact
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.answers.events import Event
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    CommandExecuted,
    Delta,
    DevicesExchanged,
    Fact,
    JobChanged,
    JobRequeued,
    JobSubmitted,
    JobUpdated,
)
from corral.core.model.jobs.job import Job
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger

PAGE_ENTRIES = 200
"""The most entries of the journal that are read at once, so that a page is small and other readers get their turn."""

_OF_A_JOB = (JobChanged, JobUpdated, AllocationMade, AllocationEnded, DevicesExchanged, CommandExecuted)


@dataclass(frozen=True, slots=True)
class EventPage:
    """The events of the entries after `after` up to `upto`, in order.

    `gap`: the journal no longer has all of these entries, and the page has no events.
    """

    after: int
    upto: int
    events: tuple[Event, ...] = ()
    gap: bool = False


class Published(NamedTuple):
    """One publication of the ledger: the deltas, the position of their last fact, and the view before."""

    position: int
    deltas: Sequence[Delta]
    before: View


class JournalEvents:
    """Events by their position in the journal. A page has all topics; the caller filters them.

    A row has the current name and queue of its job, and all other values as they were at the event.
    """

    def __init__(self, ledger: Ledger, clock: Clock, topics: Mapping[str, RowsOfFact] = CORE_TOPICS) -> None:
        self.topics = topics
        self._ledger = ledger
        self._clock = clock

    @property
    def position(self) -> int:
        """The position of the newest entry that answers of this server may reflect. Reads no disk."""
        return self._ledger.position

    def page(self, after: int, upto: int) -> EventPage:
        """Return the events after `after`, at most up to `upto`, which must exist. Raises LedgerFailed."""
        count = min(PAGE_ENTRIES, upto - after)
        entries = self._ledger.journal(after=after, limit=count)
        if len(entries) < count or entries[-1].sequence != after + count:
            return EventPage(after, upto, gap=True)
        facts = [entry.fact for entry in entries]
        return self._page(after, facts, _of_ledger(facts, self._ledger))

    def published(self, after: int, news: Sequence[Published]) -> EventPage | None:
        """Return the published events without reading the disk. None if they do not follow `after` directly, or are too
        many.
        """
        facts: list[Fact] = []
        for one in news:
            own = [delta for delta in one.deltas if isinstance(delta, Fact)]
            if one.position - len(own) != after + len(facts):
                break
            if len(facts) + len(own) > PAGE_ENTRIES:
                break
            facts += own
        known = {**_submitted(facts), **_live(facts, news[0].before)} if facts else {}
        return self._page(after, facts, known) if facts and _about(facts) <= known.keys() else None

    def _page(self, after: int, facts: Sequence[Fact], jobs: Mapping[str, Job]) -> EventPage:
        clock, now = self._clock, self._clock.now()
        # This is tested once and not for each row: the wall clock is hardly ever set.
        as_they_are = clock.shown(now) == now
        events = tuple(
            Event(topic, told.what, place, fact.at, fact.by, told.rows)
            if as_they_are
            else Event(topic, told.what, place, clock.shown(fact.at), fact.by, in_wall_time(told.rows, clock))
            for place, fact in enumerate(facts, after + 1)
            for topic, tell in self.topics.items()
            if (told := tell(fact, jobs.get)) is not None
        )
        return EventPage(after, after + len(facts), events)


def _of_ledger(facts: Sequence[Fact], ledger: Ledger) -> Mapping[str, Job]:
    """Return the jobs that the facts are about: as submitted in these facts, as they are now, or as they ended."""
    known = {**_live(facts, ledger.view()), **_submitted(facts)}
    ended = _about(facts) - known.keys()
    return known | {job.id: job for job in ledger.find_jobs(sorted(ended))} if ended else known


def _submitted(facts: Sequence[Fact]) -> dict[str, Job]:
    return {fact.job.id: fact.job for fact in facts if isinstance(fact, JobSubmitted | JobRequeued)}


def _live(facts: Sequence[Fact], view: View) -> dict[str, Job]:
    return {job_id: view.jobs[job_id] for job_id in _about(facts) if job_id in view.jobs}


def _about(facts: Sequence[Fact]) -> set[str]:
    """Return the ids of the jobs that the facts refer to but do not contain."""
    return {fact.about for fact in facts if isinstance(fact, _OF_A_JOB) and fact.about is not None}
