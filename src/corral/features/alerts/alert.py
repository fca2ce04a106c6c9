"""Alerts, and the silences that keep their messages back."""

from dataclasses import dataclass

from corral.core.model.severity import Severity


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule that fires, or fired, for one subject. All its text is printable and bounded.

    Attributes:
        subject: the subject with its kind: "device GPU-1", "job 17", "node gpu-01".
        since: when its cause began, Unix seconds. `fired_at` is later if the rule demands a duration.
        value: the reading of `measure` when it fired.
        sentence: the event with its numbers, and what to do.
        labels: further facts, sorted by name.
        group: one message may report all alerts of the same group.
        to: the channels that report it.
        owner: the user of the job that it concerns, None if it concerns no job.
        told_at: when its channels got the message that it fires; None while it is silenced.
        acknowledged_by: the user who has said that they take care of it.
        resolved_at: when it ended, None while it fires; `resolved_by` says what ended it.
        measure: the series that made it fire, the first of several; None if the condition compares only labels.
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
        """Whether the alert still fires."""
        return self.resolved_at is None


@dataclass(frozen=True, slots=True)
class AlertSilence:
    """A silence: no messages are sent for alerts that match, until a moment. These alerts are still listed.

    Attributes:
        match: which alerts, in the syntax of `corral.features.alerts.alert_match`.
        by: the user who made it; `reason` is "" if none was given.
        user: only alerts about this user's jobs; None means all alerts.
    """

    id: str
    match: str
    by: str
    made_at: float
    until: float
    reason: str = ""
    user: str | None = None
