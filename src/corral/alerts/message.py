"""What is told of an alert, and the port through which it is told."""

from dataclasses import dataclass
from typing import Protocol

from corral.core.model.alerts.alert import AlertState, Severity


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """One thing to tell about an alert: it fires, or it is resolved.

    All text may hold what users have written, such as names of jobs: it is printable and bounded, and whoever sends it
    escapes it for where it goes.

    Attributes:
        id: of the alert; its resolution has the same. A message that is repeated has the same id and state.
        rule: the name of the rule.
        subject: what it is about, with its kind: "device GPU-1", "job 17", "queue default", "node gpu-01".
        since: when what it tells of began, Unix seconds; of a resolution, too.
        at: when this was decided, Unix seconds.
        value: the reading of `measure`, as it was last; None where it judges no number, or it is not known.
        sentence: what happened, with the numbers, and what to do. One line.
        labels: what more is known, sorted by name: `node`, `gpu`, `model`, `user`, `queue` and such.
        group: messages with the same group, such as of the GPUs of one node, may be told as one.
        measure: the series that made it fire: "disk_free_mib"; None where none did.
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
    """Tells people of alerts, in channels that the site has named."""

    def send(self, channel: str, message: AlertMessage) -> None:
        """Take a message for a channel. It returns at once and never raises: sending is done elsewhere, and later."""
