"""The codes with which the server closes WebSockets."""

CLOSED_MESSAGE = 1008
CLOSED_FAILED = 1011
CLOSED_RESTART = 1012
CLOSED_FORBIDDEN = 4003
CLOSED_SLOW = 4008
"""The meanings of the codes are in docs/events.md."""
