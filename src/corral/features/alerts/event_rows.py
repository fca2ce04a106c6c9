"""Converts facts about alerts to the rows of events. Pure."""

from corral.core.control.events.rows_of_facts import FindJob, Row, Told
from corral.core.model.fact import Fact
from corral.features.alerts.alert import Alert
from corral.features.alerts.facts import AlertFact, AlertForgotten, AlertsSilenced, SilenceEnded
from corral.wire import to_plain


def of_alerts(fact: Fact, find_job: FindJob) -> Told | None:
    """Return the new state of an alert or a silence."""
    match fact:
        case AlertFact(alert=alert):
            return Told(type(fact).__name__.removeprefix("Alert").lower(), (_alert_row(alert),))
        case AlertForgotten(alert_id=alert_id):
            return Told("forgotten", ({"id": alert_id},))
        case AlertsSilenced(silence=silence):
            return Told("silenced", (to_plain(silence),))
        case SilenceEnded(silence_id=silence_id):
            return Told("silence_ended", ({"id": silence_id},))
    return None


def _alert_row(alert: Alert) -> Row:
    """Return the row of an alert as in listings, but without whether it is silenced now: the silences tell that."""
    state = "firing" if alert.fires else "resolved"
    row = {**to_plain(alert), "labels": dict(alert.labels), "state": state}
    del row["owner"]
    return row
