"""The severity of an alert."""

from enum import StrEnum


class Severity(StrEnum):
    """How severe an alert is: from information to a problem that needs action at once."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
