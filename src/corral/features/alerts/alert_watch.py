"""The watch that evaluates alert rules, writes the results into the ledger, and sends the messages."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from corral.clock import Clock
from corral.config.alert_condition import SubjectKind
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import Fact
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.telemetry import NodeTelemetry
from corral.features.alerts.alert import Alert
from corral.features.alerts.alert_rule import AlertRule
from corral.features.alerts.device_subjects import DeviceSubjects, device_subject, node_subjects
from corral.features.alerts.facts import AlertFact, AlertFired, AlertResolved
from corral.features.alerts.firing import Judged, Memory, Seen, Subject, advance, message_of
from corral.features.alerts.slice import AlertsSlice
from corral.features.alerts.work_subjects import job_subjects, queue_subjects, quota_subjects
from corral.features.channels.message import AlertState, Sender

log = logging.getLogger(__name__)

WORK_INTERVAL_S = 30.0
"""Jobs, queues, quotas and disks are checked at this interval, because there may be 100,000 jobs."""

MOST_UNWRITTEN = 1000
"""The most alerts that are remembered while the ledger cannot write them because its disk is full."""

HANDED_AGAIN_S = 24 * 3600.0
"""A restarted server does not send alerts again that were resolved longer ago: the server before it sent them."""

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSources:
    """The inputs of the rules besides the view of the ledger. Each is thread-safe and answers at once.

    Attributes:
        stale_after_s: samples older than this are ignored.
        obstacles: the reasons that keep jobs from starting, by node; "" stands for the ledger.
        disk: (total, free) bytes of the disk with the server's home; raises OSError.
        history_stopped: the reason why the history is not written, None while it is.
    """

    telemetry: NodeTelemetry
    stale_after_s: float
    obstacles: Callable[[], Mapping[str, str]]
    disk: Callable[[], tuple[int, int]]
    history_stopped: Callable[[], str | None]


class AlertWatch:
    """Evaluates the alert rules round by round. For one thread. The ledger keeps the decisions; `sender` sends the
    messages.
    """

    def __init__(self, ledger: Ledger, clock: Clock, sources: AlertSources, sender: Sender) -> None:
        self._ledger = ledger
        self._clock = clock
        self._sources = sources
        self._sender = sender
        self._memory = Memory()
        self._rules: tuple[AlertRule, ...] | None = None
        self._judged: tuple[Judged, ...] = ()
        self._devices: DeviceSubjects | None = None
        self._last_starts: dict[str, float] = {}
        self._began = clock.now()
        self._work_at = clock.monotonic()
        self._unwritten: dict[str, Fact] = {}
        self._told_again = False

    @property
    def left_out(self) -> Mapping[str, int]:
        """The number of subjects for which a rule would fire beyond its limit, by the rule's name."""
        return self._memory.left_out

    def look(self) -> None:
        """Run one round."""
        snapshot, now = self._ledger.snapshot(), self._clock.now()
        known = snapshot.of(AlertsSlice)
        if known.rules != self._rules:
            self._rules = known.rules
            self._judged = tuple(Judged.of(rule) for rule in known.rules)
        if not self._told_again:
            self._tell_again(known.alerts.values(), now)
        if self._devices is None:
            self._devices = DeviceSubjects(_known_xids(known))
        seen = self._see(snapshot.view, self._devices, now)
        # The state of the alerts includes the facts that could not be written yet.
        alerts = list(known.advance(self._unwritten.values()).alerts.values())
        step = advance(self._memory, self._judged, seen, now, alerts=alerts, silences=known.silences.values())
        self._memory = step.memory
        if step.facts or self._unwritten:
            self._write(step.facts)
        for channel, message in step.messages:
            self._sender.send(channel, message)
        for fact in step.facts:
            _log(fact)

    def _tell_again(self, alerts: Iterable[Alert], now: float) -> None:
        """Hand the last messages to the sender again: a killed server may not have done that.

        The sender knows the messages that it has, and sends none twice.
        """
        self._told_again = True
        for alert in sorted(alerts, key=lambda alert: (alert.fired_at, alert.id)):
            if alert.told_at is None or (alert.resolved_at is not None and now - alert.resolved_at > HANDED_AGAIN_S):
                continue
            messages = [message_of(alert, AlertState.FIRED, alert.told_at, alert.value)]
            if alert.resolved_at is not None:
                messages.append(message_of(alert, AlertState.RESOLVED, alert.resolved_at, None))
            for channel, message in product(alert.to, messages):
                self._sender.send(channel, message)

    def _see(self, view: View, devices: DeviceSubjects, now: float) -> Seen:
        samples, oldest = self._sources.telemetry.latest(), now - self._sources.stale_after_s
        contacts = self._sources.telemetry.contacts()
        seen: dict[SubjectKind, Sequence[Subject]] = {
            SubjectKind.DEVICE: devices.subjects(view, samples, oldest),
            SubjectKind.NODE: list(node_subjects(view, contacts, self._sources.obstacles(), now)),
        }
        if self._clock.monotonic() >= self._work_at:
            self._work_at = self._clock.monotonic() + WORK_INTERVAL_S
            seen[SubjectKind.JOB] = job_subjects(view, samples, oldest, now)
            seen[SubjectKind.QUEUE] = list(queue_subjects(view, self._last_starts, self._began, now))
            seen[SubjectKind.QUOTA] = list(quota_subjects(view, now))
            seen[SubjectKind.DISK] = [self._disk()]
            seen[SubjectKind.HISTORY] = [self._history()]
        return seen

    def _disk(self) -> Subject:
        readings: dict[str, float | str | None] = {}
        try:
            total, free = self._sources.disk()
        except OSError as error:
            log.debug("the free space of the home cannot be read: %s", error)
        else:
            readings = {"disk_free_mib": free // _MIB, "disk_free_pct": 100 * free / total if total else None}
        return Subject("disk home", "the disk of the server's home", readings, (("disk", "home"),), group="server")

    def _history(self) -> Subject:
        stopped = self._sources.history_stopped()
        readings = {"history_stopped": int(stopped is not None)}
        return Subject("history", "the history of the devices", readings, group="server")

    def _write(self, facts: Sequence[Fact]) -> None:
        """Write the facts to the ledger. If that fails, the messages are sent anyway; the next round tries again."""
        for fact in facts:
            assert fact.subject is not None
            self._unwritten[fact.subject] = fact
        waiting = tuple(self._unwritten.values())
        try:
            self._ledger.commit_in(
                AlertsSlice, lambda known: Decided(tuple(_onto(known, fact) for fact in waiting), None)
            ).result()
        except LedgerFailed as error:
            log.error("%d changes of alerts are not written yet: %s", len(waiting), error)
            while len(self._unwritten) > MOST_UNWRITTEN:
                del self._unwritten[next(iter(self._unwritten))]
            return
        self._unwritten.clear()


def _log(fact: Fact) -> None:
    if isinstance(fact, AlertFired):
        log.warning("alert %s fires (%s): %s", fact.alert.id, fact.alert.rule, fact.alert.sentence)
    elif isinstance(fact, AlertResolved):
        log.info("alert %s (%s, %s): %s", fact.alert.id, fact.alert.rule, fact.alert.subject, fact.alert.resolved_by)


def _onto(known: AlertsSlice, fact: Fact) -> Fact:
    """Return the fact, updated with the acknowledgement that a user gave its alert in the meantime."""
    if not isinstance(fact, AlertFact) or (now := known.alerts.get(fact.alert.id)) is None:
        return fact
    by, at = now.acknowledged_by, now.acknowledged_at
    return replace(fact, alert=replace(fact.alert, acknowledged_by=by, acknowledged_at=at))


def _known_xids(known: AlertsSlice) -> dict[str, int]:
    """Return the last Xid error of each device that was reported before the server restarted, by UUID."""
    prefix = device_subject("")
    told = sorted((alert for alert in known.alerts.values() if alert.rule == "xid"), key=lambda alert: alert.fired_at)
    return {alert.subject.removeprefix(prefix): int(alert.value) for alert in told if alert.value is not None}
