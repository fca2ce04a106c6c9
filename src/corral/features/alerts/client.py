"""Alerts and silences: list and change them."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import flag, number, text
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.features.alerts.answers import AlertList, AlertRow, SilenceRow


class Alerts:
    """Lists and acknowledges alerts, and silences alerts for a time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, history: bool = False) -> "AlertList":
        """The alerts that fire; with `history` also the last alerts that are over."""
        from corral.features.alerts.answers import AlertList

        return from_answer(AlertList, self._transport.get("/alerts", history=flag(history, "history")))

    def acknowledge(self, alert_id: str) -> "AlertRow":
        """Record that you take care of the alert. Returns the alert."""
        from corral.features.alerts.answers import AlertRow

        path = f"/alerts/{quote(text(alert_id, 'alert_id', _ID), safe='')}/ack"
        return from_answer(AlertRow, self._transport.post(path, repeatable=True))

    def silence(self, match: str, duration_s: float, reason: str = "") -> "SilenceRow":
        """Send no messages for alerts that match, for `duration_s` seconds. The alerts are still listed.

        `match` is a rule's name, an alert's id, or conditions like "rule=idle-*,user=alice,node=gpu-07".
        """
        from corral.features.alerts.answers import SilenceRow

        body = {
            "match": text(match, "match", "'idle-*'"),
            "duration_s": number(duration_s, "duration_s", "7200"),
            "reason": text(reason, "reason", "'moving the rack'"),
        }
        return from_answer(SilenceRow, self._transport.post("/silences", body))

    def silences(self) -> "tuple[SilenceRow, ...]":
        """The silences in force."""
        from corral.features.alerts.answers import SilenceList

        return from_answer(SilenceList, self._transport.get("/silences")).silences

    def unsilence(self, silence_id: str) -> "SilenceRow":
        """End a silence. Alerts that it kept back and that still fire are then sent. Returns the former silence."""
        from corral.features.alerts.answers import SilenceRow

        path = f"/silences/{quote(text(silence_id, 'silence_id', _ID), safe='')}"
        return from_answer(SilenceRow, self._transport.delete(path))


_ID = "'5f0c27ab'"
