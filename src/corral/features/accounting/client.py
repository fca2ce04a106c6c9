"""Reads usage and reports."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import number, text, texts
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.features.accounting.answers import Report, Usage, Waste


def read_usage(transport: Transport, by: str, since: float | None, until: float | None) -> "Usage":
    """GPU-hours of a period. This and the others raise Refused for values that cannot be a time or a key."""
    from corral.features.accounting.answers import Usage

    return from_answer(Usage, transport.get("/usage", by=text(by, "by", "'project'"), **_period(since, until)))


def read_report(transport: Transport, by: str | Sequence[str], since: float | None, until: float | None) -> "Report":
    """The use and the cost of granted GPUs in a period."""
    from corral.features.accounting.answers import Report

    words = ",".join(texts(by, "by", "['user', 'project']"))
    return from_answer(Report, transport.get("/report", by=words, **_period(since, until)))


def read_waste(transport: Transport, since: float | None, until: float | None) -> "Waste":
    """The jobs of a period that did not use their whole grant."""
    from corral.features.accounting.answers import Waste

    return from_answer(Waste, transport.get("/waste", **_period(since, until)))


def _period(since: float | None, until: float | None) -> dict[str, int | None]:
    return {
        name: None if at is None else int(number(at, name, "time.time() - 86400"))
        for name, at in (("since", since), ("until", until))
    }
