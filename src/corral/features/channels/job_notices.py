"""Notifies users of the starts and ends of their jobs, through their own channels.

The commit of a start or an end also puts the notice into the ledger, as due. The notice stays due until its message is
in the outbox. The outbox accepts each message id only once. So a killed server loses no notice, and sends no delivered
one twice.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from corral.clock import Clock
from corral.core.model.errors import BackendFailed, LedgerFailed
from corral.core.model.fact import Fact, ServerPart
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.notification import NotifyOn
from corral.core.model.jobs.phase import Phase
from corral.core.model.printable import printable
from corral.core.model.units import format_duration
from corral.core.ports.ledger import Decided, Ledger
from corral.features.channels.channel_process import Outgoing
from corral.features.channels.delivery import Delivery
from corral.features.channels.facts import NoticeGiven
from corral.features.channels.notifications import outcome
from corral.features.channels.slice import DueNotice, NoticesSlice
from corral.features.channels.wording import harmless

log = logging.getLogger(__name__)

AT_ONCE = 64
"""The most notices of one round: each is flushed to a disk."""


class JobNotices:
    """Delivers due notices, one round a call of `look`. Call `look` always from the same thread."""

    def __init__(self, ledger: Ledger, delivery: Delivery, clock: Clock) -> None:
        self._ledger = ledger
        self._delivery = delivery
        self._clock = clock
        self._failed = False

    def look(self) -> None:
        """Run one round: pass due notices to the users' channels. A notice that the disk does not accept stays due."""
        snapshot = self._ledger.snapshot()
        notices = snapshot.of(NoticesSlice).notices
        if not notices:
            return
        live_arrays = {job.array_id for job in snapshot.view.jobs.values() if job.array_id is not None}
        oldest = sorted(notices.items(), key=lambda item: (item[1].at, item[0]))
        ready = [(key, due) for key, due in oldest if due.started or _array_of(key) not in live_arrays]
        given: list[tuple[str, DueNotice]] = []
        try:
            for key, due in ready[:AT_ONCE]:
                message = self._message(key, due)
                if message is not None:
                    self._delivery.send_to_user(due.user, message)
                given.append((key, due))
            self._failed = False
        except BackendFailed as error:
            if not self._failed:
                log.error("messages to users about their jobs cannot be sent: %s; they are tried again", error)
            self._failed = True
        for one in given:
            try:
                self._ledger.commit_in(NoticesSlice, partial(self._given, one)).result()
            except LedgerFailed as error:
                # The notice is still due, and the outbox will not accept it a second time.
                log.warning("the message to user %s is not recorded yet: %s", one[1].user, error)
                return

    def _given(self, one: tuple[str, DueNotice], known: NoticesSlice) -> Decided[None]:
        key, due = one
        facts: tuple[Fact, ...] = ()
        if known.notices.get(key) == due:
            facts = (NoticeGiven(key, at=self._clock.now(), by=ServerPart.NOTIFICATIONS),)
        return Decided(facts, None)

    def _message(self, key: str, due: DueNotice) -> Outgoing | None:
        """Return the message for the user, None if the user did not ask for it or it no longer applies."""
        job = self._ledger.find_job(due.job_id)
        if job is None:
            return None
        called = job.array_id or job.id
        if due.started:
            sentence = f"{_name(job, called)} has started."
            return self._outgoing(job, _Event(NotifyOn.STARTED, f"job-{called}-started", due.at, None, sentence))
        elements = (job,) if job.array_id is None else self._ledger.find_array(job.array_id)
        if not all(element.phase.terminal for element in elements):
            return None
        done = all(element.phase is Phase.SUCCEEDED for element in elements)
        kind = NotifyOn.DONE if done else NotifyOn.FAILED
        if kind not in job.spec.notify_on:
            return None
        told = outcome(job, elements)
        code = int(told["CORRAL_EXIT_CODE"]) if told["CORRAL_EXIT_CODE"] else None
        sentence = _sentence(job, elements, due.at, told)
        return self._outgoing(job, _Event(kind, f"job-{called}-ended-{int(due.at * 1000)}", due.at, code, sentence))

    def _outgoing(self, job: Job, event: "_Event") -> Outgoing:
        called = job.array_id or job.id
        failed = event.kind is NotifyOn.FAILED
        return Outgoing(
            id=event.id,
            title=harmless(f"job {called} {event.kind.value}: {job.spec.name}")[:200],
            body=harmless(event.sentence),
            type="failure" if failed else "success" if event.kind is NotifyOn.DONE else "info",
            fields={
                "id": event.id,
                "name": f"job-{event.kind.value}",
                "severity": "warning" if failed else "info",
                "state": event.kind.value,
                "subject": f"job {called}",
                "value": event.value,
                "since": self._clock.shown(event.at),
                "sentence": event.sentence,
                "labels": {"name": printable(job.spec.name), "queue": job.spec.queue, "user": job.spec.user},
            },
            group="jobs",
        )


class _Event(NamedTuple):
    """An event of a job: `value` is its exit code."""

    kind: NotifyOn
    id: str
    at: float
    value: int | None
    sentence: str


def _sentence(job: Job, elements: Sequence[Job], at: float, told: Mapping[str, str]) -> str:
    """Return a sentence with the end of the job, its run time, and where to look."""
    called, phase, code = told["CORRAL_JOB_ID"], told["CORRAL_PHASE"], told["CORRAL_EXIT_CODE"]
    starts = [element.started_at for element in elements if element.started_at is not None]
    took = f" after {format_duration(max(1.0, round(at - min(starts))))}" if starts else " before it started"
    exited = f" with exit code {code}" if code not in ("", "0") else ""
    reason = told["CORRAL_REASON"].removesuffix(".")
    why = f": {reason}" if reason else ""
    look = "" if phase == Phase.SUCCEEDED.value else f" See: corral why {called}"
    return f"{_name(job, called)} has ended as {phase}{exited}{took}{why}.{look}"


def _name(job: Job, called: str) -> str:
    return f"Job {called} ({printable(job.spec.name)})" if job.spec.name else f"Job {called}"


def _array_of(key: str) -> str:
    return key.rpartition(" ")[2]
