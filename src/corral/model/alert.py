"""What an alert is: how bad it is, and how far it has come."""

from enum import StrEnum


class Severity(StrEnum):
    """How bad it is that an alert fires: from something to know, to something to act on at once."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class AlertState(StrEnum):
    """What is told of an alert: it fires, or what it told of is over."""

    FIRED = "fired"
    RESOLVED = "resolved"
