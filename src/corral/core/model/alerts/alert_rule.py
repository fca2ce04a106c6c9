"""A rule by which alerts fire."""

from dataclasses import dataclass

from corral.core.model.alerts.alert import Severity
from corral.core.model.alerts.alert_condition import When


@dataclass(frozen=True, slots=True)
class AlertRule:
    """When to tell whom of what.

    Attributes:
        for_s: it fires once its condition has held for so long.
        clear: what fires goes on while the condition holds with this threshold instead; None is with its own.
        to: the channels in which it is told, None where the site says nothing: those that it has, for what is worse
            than information.
        keep_s: what fires goes on for so long after its condition held last: of events that leave no trace.
        advice: what to do, for a person; "" where nobody knows.
    """

    name: str
    when: When
    for_s: float = 0.0
    clear: float | None = None
    severity: Severity = Severity.WARNING
    to: tuple[str, ...] | None = None
    keep_s: float = 0.0
    advice: str = ""
