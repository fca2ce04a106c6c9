"""Alert rules: the conditions under which alerts fire, and the channels that report them."""

from dataclasses import dataclass

from corral.config.alert_condition import When
from corral.core.model.severity import Severity


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule: its condition, its severity, and the channels that report its alerts.

    Attributes:
        for_s: the rule fires once its condition has held this long, in seconds.
        clear: an alert goes on firing while the condition holds with this threshold instead; None keeps the threshold.
        to: the channels that report its alerts. None if the site names none: then all channels of the site, for
            severities above INFO.
        keep_s: an alert goes on firing this long after its condition last held. For events that leave no trace.
        advice: what a person should do; "" if unknown.
    """

    name: str
    when: When
    for_s: float = 0.0
    clear: float | None = None
    severity: Severity = Severity.WARNING
    to: tuple[str, ...] | None = None
    keep_s: float = 0.0
    advice: str = ""
