"""Answers about alerts and silences."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An alert that fires, or fired. Times are in Unix seconds.

    Attributes:
        state: firing or resolved.
        subject: what it is about, with its kind: "device GPU-1", "job 17", "node gpu-01".
        since: when what it tells of began.
        value: the reading of `measure` when it fired.
        sentence: what happened, with the numbers, and what to do.
        to: the channels in which it is told.
        told_at: when they were told that it fires; null while it is silenced.
        silenced: it is not told now, as a silence matches.
        acknowledged_by: who has said that they take care of it.
        resolved_by: what ended it.
        measure: the series that made it fire, the first if several did; null where words alone did.
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
    """Alerts, those that fire first, the worst and newest before others.

    `left_out` counts, by rule, what would be listed, too, if a rule could fire for more subjects.
    """

    alerts: tuple[AlertRow, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SilenceRow:
    """A silence: alerts that match are listed and not told, until a time (Unix seconds).

    `user` is whose jobs it is about alone, null is all alerts; `alerts` counts those that it silences now.
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
