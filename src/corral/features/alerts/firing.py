"""Decides which alerts fire: a pure function of the earlier state, the observations, and the time.

Fired alerts are durable: they are the alerts and silences of the slice. Conditions that hold but not for long enough
are in memory only: after a restart their time starts again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2s

from corral.config.alert_condition import SubjectKind, clearing_at
from corral.core.model.fact import Fact, ServerPart
from corral.core.model.printable import printable
from corral.core.model.units import format_duration
from corral.features.alerts.alert import Alert, AlertSilence
from corral.features.alerts.alert_match import silenced
from corral.features.alerts.alert_rule import AlertRule
from corral.features.alerts.condition_functions import Judge, Readings, judge_of, reasons
from corral.features.alerts.facts import AlertFired, AlertForgotten, AlertResolved, AlertTold, SilenceEnded
from corral.features.channels.message import AlertMessage, AlertState

MOST_OF_A_RULE = 200
MOST_FIRING = 2000
"""The most subjects for which a rule fires, and the most for all rules: a failed rack, or a wrong rule, causes no
flood.
"""

UNHEARD_S = 24 * 3600.0
"""An alert whose subject cannot be read is kept for this long, because its state is unknown."""

AGAIN_AFTER_S = 300.0
"""The shortest time after its end before an alert fires again: a reading that oscillates around its threshold fires
rarely.
"""

GONE_S = 600.0
COMING_BACK = frozenset({SubjectKind.DEVICE, SubjectKind.NODE})
"""Subjects of these kinds count as gone after this time without an observation. Nodes join again after a server's
start.
"""

KEPT_S = 7 * 86400.0
MOST_KEPT = 500
"""The time for which resolved alerts are listed, and their largest number."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject that rules judge: one device, job or queue, as observed.

    Attributes:
        name: the name with its kind, as in `Alert.subject`.
        called: the name for use in a sentence.
        readings: the values that rules judge; None is unknown.
        owner: the user of a job.
    """

    name: str
    called: str
    readings: Readings
    labels: tuple[tuple[str, str], ...] = ()
    owner: str | None = None
    group: str = ""


Seen = Mapping[SubjectKind, Sequence[Subject]]
"""All subjects of the observed kinds. A subject that is missing from these no longer exists."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A condition that holds, but not for long enough: for `held_s`, last observed at `seen_at` (None: not
    readable).
    """

    since: float
    held_s: float = 0.0
    seen_at: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """The state beside the alerts themselves.

    Attributes:
        pending: conditions that hold, by rule and then by subject.
        held_at: the last time at which the condition of an alert held, by the alert's id.
        unheard_since: the time since which the subject of an alert cannot be read, by the alert's id.
        left_out: the number of subjects for which a rule would fire beyond the limits, by its name.
    """

    pending: Mapping[str, Mapping[str, Pending]] = field(default_factory=dict)
    held_at: Mapping[str, float] = field(default_factory=dict)
    unheard_since: Mapping[str, float] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """The results of a round.

    Attributes:
        memory: the memory for the next round.
        facts: the facts to write, in order.
        messages: the messages to send after the facts are written, with the channel of each.
    """

    memory: Memory
    facts: tuple[Fact, ...]
    messages: tuple[tuple[str, AlertMessage], ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A rule with its functions: whether it begins to fire, and whether its alert goes on."""

    rule: AlertRule
    begins: Judge
    goes_on: Judge

    @classmethod
    def of(cls, rule: AlertRule) -> "Judged":
        """Return the rule with its functions."""
        begins = judge_of(rule.when.condition)
        goes_on = begins if rule.clear is None else judge_of(clearing_at(rule.when, rule.clear))
        return cls(rule, begins, goes_on)


def advance(
    memory: Memory,
    rules: Sequence[Judged],
    seen: Seen,
    now: float,
    *,
    alerts: Iterable[Alert],
    silences: Iterable[AlertSilence],
) -> Step:
    """Run one round. `alerts` and `silences` are those of the view, `now` is in Unix seconds."""
    return _Look(memory, alerts, silences, rules, now).over(seen)


class _Look:
    """The working state of one round."""

    def __init__(
        self,
        memory: Memory,
        alerts: Iterable[Alert],
        silences: Iterable[AlertSilence],
        rules: Sequence[Judged],
        now: float,
    ) -> None:
        self._now = now
        self._silences = tuple(silences)
        self._rules = rules
        self._pending = {judged.rule.name: dict(memory.pending.get(judged.rule.name, {})) for judged in rules}
        self._held_at = dict(memory.held_at)
        self._unheard = dict(memory.unheard_since)
        self._left_out = dict(memory.left_out)
        self._firing: dict[str, dict[str, Alert]] = {name: {} for name in self._pending}
        self._over: list[Alert] = []
        self._over_lately: set[tuple[str, str]] = set()
        for alert in alerts:
            if alert.fires:
                self._firing.setdefault(alert.rule, {})[alert.subject] = alert
            else:
                self._over.append(alert)
                if alert.resolved_at is not None and now - alert.resolved_at < AGAIN_AFTER_S:
                    self._over_lately.add((alert.rule, alert.subject))
        self._count = sum(map(len, self._firing.values()))
        self._facts: list[Fact] = []
        self._messages: list[tuple[str, AlertMessage]] = []

    def over(self, seen: Seen) -> Step:
        """Judge all rules, report alerts whose silence has ended, and delete old alerts."""
        for silence in self._silences:
            if self._now >= silence.until:
                self._facts.append(SilenceEnded(silence.id, by=ServerPart.ALERTS, at=self._now))
        for name in self._firing.keys() - self._pending.keys():
            for alert in list(self._firing[name].values()):
                self._resolve(alert, "its rule is no longer in the settings")
        for judged in self._rules:
            if judged.rule.when.kind in seen:
                self._judge(judged, seen[judged.rule.when.kind])
        self._tell_late()
        self._forget()
        return Step(self._memory(), tuple(self._facts), tuple(self._messages))

    def _memory(self) -> Memory:
        fires = {alert.id for firing in self._firing.values() for alert in firing.values()}
        return Memory(
            {name: pending for name, pending in self._pending.items() if pending},
            {alert_id: at for alert_id, at in self._held_at.items() if alert_id in fires},
            {alert_id: at for alert_id, at in self._unheard.items() if alert_id in fires},
            {name: count for name, count in self._left_out.items() if count and name in self._pending},
        )

    def _judge(self, judged: Judged, subjects: Sequence[Subject]) -> None:
        rule, begins = judged.rule, judged.begins
        firing, pending = self._firing[rule.name], self._pending[rule.name]
        gone = {*firing, *pending}
        left_out = 0
        for subject in subjects:
            name = subject.name
            if name in firing:
                gone.discard(name)
                self._go_on(judged, subject)
                continue
            holds = begins(subject.readings)
            if holds is False and name not in pending:
                continue
            gone.discard(name)
            if self._ripens(pending, rule, name, holds) and self._may_fire(rule, name):
                if len(firing) < MOST_OF_A_RULE and self._count < MOST_FIRING:
                    self._fire(rule, subject)
                else:
                    left_out += 1
        self._left_out[rule.name] = left_out
        for name in sorted(gone):
            pending.pop(name, None)
            if name in firing:
                self._miss(firing[name], rule.when.kind)

    def _ripens(self, pending: dict[str, Pending], rule: AlertRule, name: str, holds: bool | None) -> bool:
        """Record whether the condition holds. Return whether it has held for as long as the rule demands.

        Time in which the condition was unknown does not count.
        """
        before = pending.get(name)
        if not holds:
            if holds is None and before is not None:
                pending[name] = replace(before, seen_at=None)
            else:
                pending.pop(name, None)
            return False
        held_s = 0.0 if before is None else before.held_s
        if before is not None and before.seen_at is not None:
            held_s += max(0.0, self._now - before.seen_at)
        pending[name] = Pending(self._now if before is None else before.since, held_s, self._now)
        return held_s >= rule.for_s

    def _may_fire(self, rule: AlertRule, name: str) -> bool:
        """Return whether the alert may fire: it did not end just now. Rules for events (`keep_s`) may fire at any
        time.
        """
        return rule.keep_s > 0 or (rule.name, name) not in self._over_lately

    def _fire(self, rule: AlertRule, subject: Subject) -> None:
        since = self._pending[rule.name].pop(subject.name).since
        causes = _causes(rule, subject)
        measure, value = next(iter(causes.items()), (None, None))
        alert = Alert(
            id=_id_of(rule.name, subject.name, self._now),
            rule=rule.name,
            severity=rule.severity,
            subject=subject.name,
            since=since,
            fired_at=self._now,
            value=value,
            measure=measure,
            sentence=_sentence(rule, subject, causes),
            labels=subject.labels,
            group=f"{rule.name} {subject.group}".strip(),
            to=rule.to or (),
            owner=subject.owner,
        )
        if not self._is_silenced(alert):
            alert = replace(alert, told_at=self._now)
            self._tell(alert, AlertState.FIRED, value)
        self._firing[rule.name][subject.name] = alert
        self._count += 1
        self._held_at[alert.id] = self._now
        self._facts.append(AlertFired(alert, by=ServerPart.ALERTS, at=self._now))

    def _go_on(self, judged: Judged, subject: Subject) -> None:
        """Resolve an alert whose condition no longer holds. An alert that cannot be judged is kept, for UNHEARD_S."""
        alert = self._firing[judged.rule.name][subject.name]
        goes_on = judged.goes_on(subject.readings)
        if goes_on is None:
            since = self._unheard.setdefault(alert.id, self._now)
            if self._now - since >= UNHEARD_S:
                unheard = format_duration(UNHEARD_S)
                self._resolve(alert, f"it could not be read for {unheard}; it may have ended")
            return
        self._unheard.pop(alert.id, None)
        if goes_on:
            self._held_at[alert.id] = self._now
        elif self._now - self._held_at.get(alert.id, alert.fired_at) >= judged.rule.keep_s:
            self._resolve(alert, "its condition no longer holds", _measured(alert.measure, subject))

    def _miss(self, alert: Alert, kind: SubjectKind) -> None:
        """Handle an alert whose subject was not observed. A node and its devices may simply not have joined yet."""
        if kind in COMING_BACK and self._now - self._unheard.setdefault(alert.id, self._now) < GONE_S:
            return
        self._resolve(alert, f"{alert.subject} no longer exists")

    def _resolve(self, alert: Alert, why: str, value: float | None = None) -> None:
        ended = replace(alert, resolved_at=self._now, resolved_by=why)
        del self._firing[alert.rule][alert.subject]
        self._count -= 1
        self._over.append(ended)
        self._facts.append(AlertResolved(ended, by=ServerPart.ALERTS, at=self._now))
        if alert.told_at is not None:
            self._tell(ended, AlertState.RESOLVED, value)

    def _tell_late(self) -> None:
        """Send the alerts that still fire after their silence has ended, but not the acknowledged ones."""
        untold = [
            alert
            for firing in self._firing.values()
            for alert in firing.values()
            if alert.told_at is None and alert.acknowledged_by is None and not self._is_silenced(alert)
        ]
        for alert in untold:
            told = replace(alert, told_at=self._now)
            self._firing[alert.rule][alert.subject] = told
            self._facts.append(AlertTold(told, by=ServerPart.ALERTS, at=self._now))
            self._tell(told, AlertState.FIRED, alert.value)

    def _forget(self) -> None:
        newest_first = sorted(self._over, key=lambda alert: (-(alert.resolved_at or 0.0), alert.id))
        for number, alert in enumerate(newest_first):
            if number >= MOST_KEPT or self._now - (alert.resolved_at or 0.0) >= KEPT_S:
                self._facts.append(AlertForgotten(alert.id, by=ServerPart.ALERTS, at=self._now))

    def _is_silenced(self, alert: Alert) -> bool:
        return any(silenced(silence, alert, self._now) for silence in self._silences)

    def _tell(self, alert: Alert, state: AlertState, value: float | None) -> None:
        message = message_of(alert, state, self._now, value)
        self._messages += [(channel, message) for channel in alert.to]


def message_of(alert: Alert, state: AlertState, at: float, value: float | None) -> AlertMessage:
    """Return the message about an alert at a time (Unix seconds)."""
    sentence = (
        alert.sentence
        if state is AlertState.FIRED
        else f"resolved, {alert.resolved_by}; it fired with: {alert.sentence}"
    )
    return AlertMessage(
        alert.id,
        alert.rule,
        alert.severity,
        alert.subject,
        state,
        alert.since,
        at,
        value,
        sentence,
        alert.labels,
        alert.group,
        alert.measure,
    )


def _causes(rule: AlertRule, subject: Subject) -> dict[str, float]:
    """Return the readings that make the rule fire, by their series; empty if only texts do, such as a model."""
    found = {one.name: _measured(one.name, subject) for one in reasons(rule.when.condition, subject.readings)}
    return {name: value for name, value in found.items() if value is not None}


def _measured(measure: str | None, subject: Subject) -> float | None:
    reading = None if measure is None else subject.readings.get(measure)
    return None if reading is None or isinstance(reading, str) else float(reading)


def _sentence(rule: AlertRule, subject: Subject, causes: Mapping[str, float]) -> str:
    held = f" for {format_duration(rule.for_s)}" if rule.for_s else ""
    read = " and ".join(f"{measure} is {_shown(measure, value)}" for measure, value in causes.items())
    said = f"{subject.called}: {read} ({rule.when.text}{held})" if read else f"{subject.called}: {rule.when.text}{held}"
    return printable(f"{said}. {rule.advice}" if rule.advice else said)


def _shown(measure: str, value: float) -> str:
    return format_duration(value) if measure.endswith("_s") else f"{value:g}"


def _id_of(rule: str, subject: str, now: float) -> str:
    """Return an id. Two alerts have the same id with a chance of one in four billion."""
    return blake2s(f"{rule}\0{subject}\0{now!r}".encode(errors="replace"), digest_size=4).hexdigest()
