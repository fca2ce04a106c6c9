"""Reads the history of devices, jobs, nodes, users and projects."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import number, optional, text, texts
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.features.history.answers import GpuWindows, GroupHistory, Kpis

T = TypeVar("T")


class Groups:
    """Reads the history of users, or of projects."""

    def __init__(self, transport: Transport, kind: str) -> None:
        self._transport = transport
        self._kind = kind

    def history(
        self,
        name: str,
        range: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        series: str | Sequence[str] = (),
    ) -> "GroupHistory":
        """The history of the devices of its jobs, as in `Devices.history`. Memory and power are sums."""
        from corral.features.history.answers import GroupHistory

        path = [self._kind, text(name, "name", "'alice'")]
        return read_history(self._transport, GroupHistory, path, range=range, since=since, until=until, series=series)


def read_history(
    transport: Transport,
    cls: type[T],
    path: Sequence[str],
    *,
    range: str | None,
    since: float | None,
    until: float | None,
    series: str | Sequence[str],
) -> T:
    """The history at this path below /history. Raises Refused for values that cannot be a time or series."""
    wanted = ",".join(texts(series, "series", "['power_w']")) or None
    span = optional(text, range, "range", "'1h'")
    where = "/".join(["/history", *(quote(part, safe="") for part in path)])
    return from_answer(cls, transport.get(where, range=span, series=wanted, **_period(since, until)))


def read_window(transport: Transport, path: Sequence[str], since: float, until: float) -> "GpuWindows":
    """The sums of the readings of the GPUs at this path below /history/windows, between two times (Unix seconds)."""
    from corral.features.history.answers import GpuWindows

    where = "/".join(["/history/windows", *(quote(part, safe="") for part in path)])
    window = {"from": number(since, "since", "time.time() - 60"), "to": number(until, "until", "time.time()")}
    return from_answer(GpuWindows, transport.get(where, **window))


def read_kpis(
    transport: Transport, *, range: str | None, by: str | None, since: float | None, until: float | None
) -> "Kpis":
    """Key figures of a period. Raises Refused for values that cannot be a time."""
    from corral.features.history.answers import Kpis

    span, group = optional(text, range, "range", "'24h'"), optional(text, by, "by", "'user'")
    return from_answer(Kpis, transport.get("/kpis", range=span, by=group, **_period(since, until)))


def _period(since: float | None, until: float | None) -> dict[str, int | None]:
    return {
        name: None if at is None else int(number(at, field, "time.time() - 3600"))
        for name, field, at in (("from", "since", since), ("to", "until", until))
    }
