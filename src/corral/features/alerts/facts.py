"""Facts about alerts and silences: each carries all of what it is about, so the last of a subject is enough.

The rules are observed: the site's settings have them.
"""

from dataclasses import dataclass

from corral.core.model.alerts.alert import Alert, AlertSilence
from corral.core.model.alerts.alert_rule import AlertRule
from corral.core.model.fact import Fact, Observation


@dataclass(frozen=True, slots=True)
class AlertFact(Fact):
    """Something happened to an alert; `alert` is it since then. What happened, its subclasses say."""

    alert: Alert

    @property
    def subject(self) -> str:
        """How the alert stands."""
        return f"alert {self.alert.id}"


@dataclass(frozen=True, slots=True)
class AlertFired(AlertFact):
    """A rule fires for a subject. Where `alert.told_at` is set, its channels are told so."""


@dataclass(frozen=True, slots=True)
class AlertTold(AlertFact):
    """An alert that had been silenced is told now: the silence is over, and it still fires."""


@dataclass(frozen=True, slots=True)
class AlertAcknowledged(AlertFact):
    """Somebody takes care of what an alert tells of."""


@dataclass(frozen=True, slots=True)
class AlertResolved(AlertFact):
    """What an alert told of is over. Its channels are told so, if they were told that it fires."""


@dataclass(frozen=True, slots=True)
class AlertForgotten(Fact):
    """An alert was over so long ago that it is listed no more."""

    alert_id: str

    @property
    def subject(self) -> str:
        """How the alert stands."""
        return f"alert {self.alert_id}"

    @property
    def closes(self) -> bool:
        """It is gone."""
        return True


@dataclass(frozen=True, slots=True)
class AlertsSilenced(Fact):
    """Somebody does not want to be told of some alerts for a time."""

    silence: AlertSilence

    @property
    def subject(self) -> str:
        """Whether the silence is in force."""
        return f"silence {self.silence.id}"


@dataclass(frozen=True, slots=True)
class SilenceEnded(Fact):
    """A silence is over: its time is up, or somebody has ended it."""

    silence_id: str

    @property
    def subject(self) -> str:
        """Whether the silence is in force."""
        return f"silence {self.silence_id}"

    @property
    def closes(self) -> bool:
        """It is over."""
        return True


@dataclass(frozen=True, slots=True)
class AlertRulesArranged(Observation):
    """By which rules alerts fire, as the site has it; replaces those before."""

    rules: tuple[AlertRule, ...] = ()
