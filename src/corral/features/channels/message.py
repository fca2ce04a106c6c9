"""The message about an alert, and the port that sends it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from corral.core.model.severity import Severity


class AlertState(StrEnum):
    """The events of an alert that a channel reports: it fired, or its cause is over."""

    FIRED = "fired"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """One message about an alert: it fires, or it is resolved.

    All text may contain words of users, such as names of jobs. It is printable and of limited length; the sender
    escapes it for its target.

    Attributes:
        id: the id of the alert; its resolution has the same. A repeated message has the same id and state.
        rule: the name of the rule.
        subject: the subject with its kind: "device GPU-1", "job 17", "queue default", "node gpu-01".
        since: the start of the condition, Unix seconds; the same for its resolution.
        at: the time of the decision, Unix seconds.
        value: the last reading of `measure`; None if the rule judges no number, or the reading is unknown.
        sentence: the event with its numbers, and advice. One line.
        labels: more facts, sorted by name: `node`, `gpu`, `model`, `user`, `queue` and others.
        group: messages with the same group, such as those of the GPUs of one node, may be combined into one.
        measure: the series that made the rule fire: "disk_free_mib"; None if none did.
    """

    id: str
    rule: str
    severity: Severity
    subject: str
    state: AlertState
    since: float
    at: float
    value: float | None
    sentence: str
    labels: tuple[tuple[str, str], ...] = ()
    group: str = ""
    measure: str | None = None


class Sender(Protocol):
    """Sends alerts to people, through the channels of the site."""

    def send(self, channel: str, message: AlertMessage) -> None:
        """Accept a message for a channel. Returns at once and never raises; the message is sent later."""
