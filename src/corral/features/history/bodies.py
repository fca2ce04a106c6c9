"""The queries for histories and key figures."""

from dataclasses import dataclass

from corral.core.model.devices.group_use import KpiBy


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """The stretch of time: a `range` up to now (30m, 1h, 6h, 12h, 24h, 2d or 7d; 1h by default, and of a job its last
    run), or `from` and `to` (Unix seconds; up to now by default), and which series; all where none is named.
    """

    range: str | None = None
    from_: int | None = None
    to: int | None = None
    series: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """The window: `from` and `to`, Unix seconds, of which fractions count."""

    from_: float
    to: float


@dataclass(frozen=True, slots=True)
class KpiQuery:
    """The stretch of time: a `range` up to now (30m, 1h, 6h, 12h, 24h, 2d or 7d; 24h by default), or `from` and `to`
    (Unix seconds; up to now by default); and a row for each user, project, queue, node or means of sharing, if any.
    """

    range: str | None = None
    from_: int | None = None
    to: int | None = None
    by: KpiBy | None = None
