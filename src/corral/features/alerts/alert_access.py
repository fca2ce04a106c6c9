"""The use cases of users for alerts: list, acknowledge, silence."""

import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.errors import Conflict, NotFound, Refused
from corral.core.model.printable import printable
from corral.core.model.severity import Severity
from corral.core.model.units import format_duration
from corral.core.ports.ledger import Decided, Ledger
from corral.features.alerts.alert import Alert, AlertSilence
from corral.features.alerts.alert_match import check_match, silenced
from corral.features.alerts.alert_permissions import may_acknowledge, may_end_silence, silence_user
from corral.features.alerts.answers import AlertList, AlertRow, SilenceList, SilenceRow
from corral.features.alerts.facts import AlertAcknowledged, AlertsSilenced, SilenceEnded
from corral.features.alerts.slice import AlertsSlice

log = logging.getLogger(__name__)

LONGEST_SILENCE_S = 366 * 86400.0
MOST_SILENCES = 500
MOST_OF_A_USER = 20
MOST_REASON_CHARACTERS = 200

_UNSILENCE = "corral alerts unsilence ID"

_WORST_FIRST = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


class AlertAccess:
    """Lists, acknowledges and silences alerts. Thread-safe.

    `left_out` returns, by rule, the number of subjects for which the rule would fire beyond its limit.
    """

    def __init__(self, ledger: Ledger, clock: Clock, left_out: Callable[[], Mapping[str, int]]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._left_out = left_out

    def alerts(self, *, history: bool = False) -> AlertList:
        """Return the alerts that fire. With `history`, also return the last resolved alerts, newest first."""
        known, now = self._known(), self._clock.now()
        wanted = [alert for alert in known.alerts.values() if history or alert.fires]
        rows = tuple(_row(alert, known, now) for alert in sorted(wanted, key=_order))
        return AlertList(in_wall_time(rows, self._clock), dict(self._left_out()))

    def acknowledge(self, alert_id: str, caller: Caller) -> AlertRow:
        """Record that the caller takes care of the alert. Raises NotFound, Forbidden, and Conflict if the alert is
        over.
        """
        at = self._clock.now()

        def decide(known: AlertsSlice) -> Decided[Alert]:
            alert = known.alerts.get(alert_id)
            if alert is None:
                raise NotFound(f"there is no alert {alert_id:.60}; `corral alerts` lists them", field="id")
            may_acknowledge(caller, alert)
            if not alert.fires:
                raise Conflict(f"alert {alert_id} is over already: {alert.resolved_by}")
            if alert.acknowledged_by is not None:
                return Decided((), alert)
            taken = replace(alert, acknowledged_by=caller.user, acknowledged_at=at)
            return Decided((AlertAcknowledged(taken, by=caller.user, at=at),), taken)

        alert = self._ledger.commit_in(AlertsSlice, decide, user=caller.user).result()
        log.info("alert %s was acknowledged by %s", alert.id, alert.acknowledged_by)
        return in_wall_time(_row(alert, self._known(), self._clock.now()), self._clock)

    def silences(self) -> SilenceList:
        """The silences that are in force."""
        known, now = self._known(), self._clock.now()
        alive = [silence for silence in known.silences.values() if now < silence.until]
        rows = tuple(_silence_row(one, known, now) for one in sorted(alive, key=lambda one: (one.until, one.id)))
        return SilenceList(in_wall_time(rows, self._clock))

    def silence(self, match: str, duration_s: float, reason: str, caller: Caller) -> SilenceRow:
        """Suppress the messages of matching alerts for `duration_s`. A user who is no administrator silences only
        alerts about their own jobs.

        Raises Refused for an invalid match, and Forbidden for a read-only token.
        """
        match = printable(match)
        check_match(match)
        if not 1 <= duration_s <= LONGEST_SILENCE_S:
            most = format_duration(LONGEST_SILENCE_S)
            raise Refused(f"duration_s must be from 1 to {LONGEST_SILENCE_S:g} ({most})", field="duration_s")
        if len(reason) > MOST_REASON_CHARACTERS:
            raise Refused(
                f"reason: it has {len(reason)} characters; at most {MOST_REASON_CHARACTERS} are allowed", field="reason"
            )
        at = self._clock.now()
        made = AlertSilence(
            secrets.token_hex(4),
            match,
            caller.user,
            at,
            at + duration_s,
            printable(reason),
            silence_user(caller),
        )

        def decide(known: AlertsSlice) -> Decided[None]:
            own = sum(silence.by == caller.user for silence in known.silences.values())
            if not caller.admin and own >= MOST_OF_A_USER:
                raise Conflict(f"you have {own} silences, and {MOST_OF_A_USER} are the most; end some: {_UNSILENCE}")
            if len(known.silences) >= MOST_SILENCES:
                raise Conflict(
                    f"all users together have {MOST_SILENCES} silences, the most; somebody must end some: {_UNSILENCE}"
                )
            return Decided((AlertsSilenced(made, by=caller.user, at=at),), None)

        self._ledger.commit_in(AlertsSlice, decide, user=caller.user).result()
        log.info("%s silenced alerts that match %s for %s", made.by, made.match, format_duration(duration_s))
        return in_wall_time(_silence_row(made, self._known(), at), self._clock)

    def unsilence(self, silence_id: str, caller: Caller) -> SilenceRow:
        """End a silence. The held-back alerts that still fire are then sent. Raises NotFound and Forbidden."""
        at = self._clock.now()

        def decide(known: AlertsSlice) -> Decided[SilenceRow]:
            silence = known.silences.get(silence_id)
            if silence is None:
                raise NotFound(f"there is no silence {silence_id:.60}; `corral alerts silences` lists them", field="id")
            may_end_silence(caller, silence)
            return Decided((SilenceEnded(silence_id, by=caller.user, at=at),), _silence_row(silence, known, at))

        row = self._ledger.commit_in(AlertsSlice, decide, user=caller.user).result()
        log.info("silence %s was ended by %s", silence_id, caller.user)
        return in_wall_time(row, self._clock)

    def _known(self) -> AlertsSlice:
        return self._ledger.snapshot().of(AlertsSlice)


def _order(alert: Alert) -> tuple[bool, int, float, str]:
    if alert.fires:
        return False, _WORST_FIRST[alert.severity], -alert.fired_at, alert.subject
    return True, 0, -(alert.resolved_at or 0.0), alert.subject


def is_silenced(alert: Alert, known: AlertsSlice, now: float) -> bool:
    """Return whether a silence suppresses the messages of the alert at `now` (Unix seconds)."""
    return any(silenced(silence, alert, now) for silence in known.silences.values())


def unattended(known: AlertsSlice, now: float) -> dict[str, int]:
    """Return the number of firing alerts that are neither acknowledged nor silenced, by severity, the worst first."""
    alerts = [alert for alert in known.alerts.values() if alert.fires and alert.acknowledged_by is None]
    counts = Counter(alert.severity for alert in alerts if not is_silenced(alert, known, now))
    return {severity.value: counts[severity] for severity in sorted(counts, key=_WORST_FIRST.__getitem__)}


def _row(alert: Alert, known: AlertsSlice, now: float) -> AlertRow:
    return AlertRow(
        id=alert.id,
        rule=alert.rule,
        severity=alert.severity.value,
        state="firing" if alert.fires else "resolved",
        subject=alert.subject,
        since=alert.since,
        fired_at=alert.fired_at,
        value=alert.value,
        measure=alert.measure,
        sentence=alert.sentence,
        labels=dict(alert.labels),
        group=alert.group,
        to=alert.to,
        silenced=alert.fires and is_silenced(alert, known, now),
        told_at=alert.told_at,
        acknowledged_by=alert.acknowledged_by,
        acknowledged_at=alert.acknowledged_at,
        resolved_at=alert.resolved_at,
        resolved_by=alert.resolved_by,
    )


def _silence_row(silence: AlertSilence, known: AlertsSlice, now: float) -> SilenceRow:
    count = sum(alert.fires and silenced(silence, alert, now) for alert in known.alerts.values())
    made_at, until = silence.made_at, silence.until
    return SilenceRow(silence.id, silence.match, silence.by, made_at, until, silence.reason, silence.user, count)
