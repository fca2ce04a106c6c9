"""The number of firing alerts as metrics."""

from collections import Counter
from collections.abc import Iterator

from corral.core.control.metrics.exposition import Row, family, labelled
from corral.features.alerts.alert import Alert
from corral.features.alerts.alert_access import is_silenced
from corral.features.alerts.slice import AlertsSlice


def alert_metrics(known: AlertsSlice, now: float) -> Iterator[str]:
    """Yield the number of firing alerts, by rule, severity and state: acknowledged, silenced, or firing."""
    counts = Counter(
        (alert.rule, alert.severity.value, _state(alert, known, now)) for alert in known.alerts.values() if alert.fires
    )
    yield from family(
        "corral_alerts",
        "gauge",
        "Active alerts; their state is acknowledged, silenced or firing.",
        (
            Row(labelled(rule=rule, severity=severity, state=state), count)
            for (rule, severity, state), count in sorted(counts.items())
        ),
    )


def _state(alert: Alert, known: AlertsSlice, now: float) -> str:
    if alert.acknowledged_by is not None:
        return "acknowledged"
    return "silenced" if is_silenced(alert, known, now) else "firing"
