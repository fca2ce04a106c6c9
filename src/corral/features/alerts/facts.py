"""Facts about alerts and silences. Each has the whole state of its subject, so the last fact of a subject suffices.

The rules are an observation, because they come from the site's settings.
"""

from dataclasses import dataclass

from corral.core.model.fact import Fact, Observation
from corral.features.alerts.alert import Alert, AlertSilence
from corral.features.alerts.alert_rule import AlertRule


@dataclass(frozen=True, slots=True)
class AlertFact(Fact):
    """A change of an alert; `alert` is its new state. The subclass says which change."""

    alert: Alert

    @property
    def subject(self) -> str:
        """The state of the alert."""
        return f"alert {self.alert.id}"


@dataclass(frozen=True, slots=True)
class AlertFired(AlertFact):
    """A rule fires for a subject. If `alert.told_at` is set, its channels get a message."""


@dataclass(frozen=True, slots=True)
class AlertTold(AlertFact):
    """A silenced alert is sent now: the silence has ended, and the alert still fires."""


@dataclass(frozen=True, slots=True)
class AlertAcknowledged(AlertFact):
    """A user takes care of an alert."""


@dataclass(frozen=True, slots=True)
class AlertResolved(AlertFact):
    """An alert is over. Its channels get a message if they got one when it fired."""


@dataclass(frozen=True, slots=True)
class AlertForgotten(Fact):
    """An alert that ended long ago is no longer listed."""

    alert_id: str

    @property
    def subject(self) -> str:
        """The state of the alert."""
        return f"alert {self.alert_id}"

    @property
    def closes(self) -> bool:
        """True: the alert is deleted."""
        return True


@dataclass(frozen=True, slots=True)
class AlertsSilenced(Fact):
    """A user suppresses the messages of some alerts for a time."""

    silence: AlertSilence

    @property
    def subject(self) -> str:
        """Whether the silence is in force."""
        return f"silence {self.silence.id}"


@dataclass(frozen=True, slots=True)
class SilenceEnded(Fact):
    """A silence is over: its time is up, or a user has ended it."""

    silence_id: str

    @property
    def subject(self) -> str:
        """Whether the silence is in force."""
        return f"silence {self.silence_id}"

    @property
    def closes(self) -> bool:
        """True: the silence is over."""
        return True


@dataclass(frozen=True, slots=True)
class AlertRulesArranged(Observation):
    """The alert rules of the site; they replace the earlier ones."""

    rules: tuple[AlertRule, ...] = ()
