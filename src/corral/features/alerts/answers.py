"""Answers about alerts and silences."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An active or resolved alert. Times are in Unix seconds.

    Attributes:
        state: firing or resolved.
        subject: the subject with its kind: "device GPU-1", "job 17", "node gpu-01".
        since: when its cause began.
        value: the reading of `measure` when it fired.
        sentence: the event with its numbers, and what to do.
        to: the channels that report it.
        told_at: when they got the message about it; null while it is silenced.
        silenced: no messages are sent now, because a silence matches.
        acknowledged_by: the user who has said that they take care of it.
        resolved_by: what ended it.
        measure: the series that made it fire, the first of several; null if the condition compares only labels.
    """

    id: str
    rule: str
    severity: str
    state: str
    subject: str
    since: float
    fired_at: float
    value: float | None
    sentence: str
    labels: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    to: tuple[str, ...] = ()
    silenced: bool = False
    told_at: float | None = None
    acknowledged_by: str | None = None
    acknowledged_at: float | None = None
    resolved_at: float | None = None
    resolved_by: str | None = None
    measure: str | None = None


@dataclass(frozen=True, slots=True)
class AlertList:
    """Alerts: firing ones first, then by severity and time, the worst and newest first.

    `left_out` counts, by rule, further alerts that would be listed if a rule could fire for more subjects.
    """

    alerts: tuple[AlertRow, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SilenceRow:
    """A silence: alerts that match are listed, but no messages are sent, until a time (Unix seconds).

    With `user`, it is only for alerts about this user's jobs; null is all alerts. `alerts` counts the alerts that it
    silences now.
    """

    id: str
    match: str
    by: str
    made_at: float
    until: float
    reason: str = ""
    user: str | None = None
    alerts: int = 0


@dataclass(frozen=True, slots=True)
class SilenceList:
    """The silences that are in force, the one that ends first before others."""

    silences: tuple[SilenceRow, ...] = ()
