"""What an alert is: how bad it is, how far it has come, and by what its messages are silenced."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is that an alert fires: from something to know, to something to act on at once."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class AlertState(StrEnum):
    """What is told of an alert: it fires, or what it told of is over."""

    FIRED = "fired"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule that fires, or fired, for one subject. All its text is printable and bounded.

    Attributes:
        subject: what it is about, with its kind: "device GPU-1", "job 17", "node gpu-01".
        since: when what it tells of began, Unix seconds; `fired_at` is later, where the rule asks for some duration.
        value: the reading of `measure` when it fired.
        sentence: what happened, with the numbers, and what to do.
        labels: what more is known, sorted by name.
        group: alerts with the same group may be told as one.
        to: the channels in which it is told.
        owner: the user whose job it is about, None where it is about none.
        told_at: when its channels were told that it fires; None while it is silenced.
        acknowledged_by: who has said that they take care of it.
        resolved_at: when it was over, None while it fires; `resolved_by` says what ended it.
        measure: the series that made it fire, the first if several did; None where words alone did.
    """

    id: str
    rule: str
    severity: Severity
    subject: str
    since: float
    fired_at: float
    value: float | None
    sentence: str
    labels: tuple[tuple[str, str], ...] = ()
    group: str = ""
    to: tuple[str, ...] = ()
    owner: str | None = None
    told_at: float | None = None
    acknowledged_by: str | None = None
    acknowledged_at: float | None = None
    resolved_at: float | None = None
    resolved_by: str | None = None
    measure: str | None = None

    @property
    def fires(self) -> bool:
        """Whether it is not over."""
        return self.resolved_at is None


@dataclass(frozen=True, slots=True)
class AlertSilence:
    """Alerts that match are not told until a moment; they are listed all the same.

    Attributes:
        match: which alerts, as `corral.core.model.alerts.alert_match` reads it.
        by: who made it; `reason` is "" where nothing was said.
        user: only alerts about this user's jobs, None is all alerts.
    """

    id: str
    match: str
    by: str
    made_at: float
    until: float
    reason: str = ""
    user: str | None = None
