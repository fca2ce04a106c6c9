"""Alerts and silences: list and change them."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import flag, number, text
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.core.model.answers.alerts import AlertList, AlertRow, SilenceRow


class Alerts:
    """Lists and acknowledges alerts, and silences some for a time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, history: bool = False) -> "AlertList":
        """The alerts that fire; with `history` also the last that are over."""
        from corral.core.model.answers.alerts import AlertList

        return from_answer(AlertList, self._transport.get("/alerts", history=flag(history, "history")))

    def acknowledge(self, alert_id: str) -> "AlertRow":
        """Say that you take care of it. Returns the alert."""
        from corral.core.model.answers.alerts import AlertRow

        path = f"/alerts/{quote(text(alert_id, 'alert_id', _ID), safe='')}/ack"
        return from_answer(AlertRow, self._transport.post(path, repeatable=True))

    def silence(self, match: str, duration_s: float, reason: str = "") -> "SilenceRow":
        """Keep alerts that match from being told for so long; they are listed all the same.

        `match` is a rule's name, an alert's id, or such as "rule=idle-*,user=alice,node=gpu-07".
        """
        from corral.core.model.answers.alerts import SilenceRow

        body = {
            "match": text(match, "match", "'idle-*'"),
            "duration_s": number(duration_s, "duration_s", "7200"),
            "reason": text(reason, "reason", "'moving the rack'"),
        }
        return from_answer(SilenceRow, self._transport.post("/silences", body))

    def silences(self) -> "tuple[SilenceRow, ...]":
        """The silences that are in force."""
        from corral.core.model.answers.alerts import SilenceList

        return from_answer(SilenceList, self._transport.get("/silences")).silences

    def unsilence(self, silence_id: str) -> "SilenceRow":
        """End a silence: what it kept back and still fires is told. Returns it as it was."""
        from corral.core.model.answers.alerts import SilenceRow

        path = f"/silences/{quote(text(silence_id, 'silence_id', _ID), safe='')}"
        return from_answer(SilenceRow, self._transport.delete(path))


_ID = "'5f0c27ab'"
