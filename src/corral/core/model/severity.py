"""The severity of an alert."""

from enum import StrEnum


class Severity(StrEnum):
    """The severity of an alert, from information to a problem that needs action at once."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
