"""Moments as text with a time zone."""

from datetime import UTC, datetime


def utc_time(at: float) -> str:
    """Unix seconds as text in UTC: "2026-11-22T22:31:00.000Z"."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
