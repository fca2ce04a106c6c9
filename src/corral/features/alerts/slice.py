"""The slice with firing alerts, recently resolved alerts, and silences."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.core.model.draft import DraftOf
from corral.core.model.fact import Delta
from corral.core.model.slice import Slice
from corral.core.model.view import EMPTY
from corral.features.alerts.alert import Alert, AlertSilence
from corral.features.alerts.alert_rule import AlertRule
from corral.features.alerts.facts import (
    AlertFact,
    AlertForgotten,
    AlertRulesArranged,
    AlertsSilenced,
    SilenceEnded,
)


@dataclass(frozen=True)
class AlertsSlice(Slice):
    """Alerts, silences and rules.

    Attributes:
        rules: the alert rules.
        alerts: firing alerts and the last resolved ones, by id.
        silences: silences that suppress messages, by id.
    """

    rules: tuple[AlertRule, ...] = ()
    alerts: Mapping[str, Alert] = field(default_factory=lambda: EMPTY)
    silences: Mapping[str, AlertSilence] = field(default_factory=lambda: EMPTY)

    deltas = (AlertFact, AlertForgotten, AlertsSilenced, SilenceEnded, AlertRulesArranged)

    @staticmethod
    def fold(draft: "DraftOf[AlertsSlice]", delta: Delta) -> None:
        """Store the new state of an alert or a silence from the fact."""
        match delta:
            case AlertFact(alert=alert):
                draft.put("alerts", alert.id, alert)
            case AlertForgotten(alert_id=alert_id):
                draft.drop("alerts", alert_id)
            case AlertsSilenced(silence=silence):
                draft.put("silences", silence.id, silence)
            case SilenceEnded(silence_id=silence_id):
                draft.drop("silences", silence_id)
            case AlertRulesArranged(rules=rules):
                draft.amend(rules=rules)
