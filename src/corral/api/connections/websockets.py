"""How WebSockets are closed."""

CLOSED_MESSAGE = 1008
CLOSED_FAILED = 1011
CLOSED_RESTART = 1012
CLOSED_FORBIDDEN = 4003
CLOSED_SLOW = 4008
"""Codes with which a WebSocket is closed, as docs/events.md lists them."""
