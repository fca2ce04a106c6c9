"""GPUs that were chosen for services whose pods are not seen yet. Pure.

All who deploy share one object of the cluster, in which each hold is an entry. Times are the API server's, so that
clocks which differ do not matter. A hold stays until its deadline and counts for what the service's pods do not have
yet, as whoever reads it sees them: so nobody who reads pods late can think that the GPUs are free.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HOLD_S = 300.0
"""By then an operator has made its pods, and Kubernetes has bound them."""

_MOST_GPUS = 1024


@dataclass(frozen=True, slots=True)
class Hold:
    """GPUs of one node for one service.

    Attributes:
        service: `via.namespace.name`, which is also the entry's key.
        until: seconds since 1970, by the API server's clock.
    """

    service: str
    node_name: str
    gpus: int
    until: float


def service_key(via: str, namespace: str, name: str) -> str:
    """What a service is called among the holds."""
    return f"{via}.{namespace}.{name}"


def holds_in(data: Mapping[str, Any], now: float) -> list[Hold]:
    """The holds that have not ended, by service. Entries that make no sense, or last too long, are left out."""
    found = (_hold(str(key), value) for key, value in sorted(data.items()))
    return [hold for hold in found if hold is not None and now < hold.until <= now + 2 * HOLD_S]


def changes(
    data: Mapping[str, Any], now: float, hold: Hold | None, removed: str | None = None
) -> dict[str, str | None]:
    """What a merge patch of the object's data says: the new hold, and None for each entry that goes."""
    kept = {one.service for one in holds_in(data, now)} - {removed}
    gone: dict[str, str | None] = {str(key): None for key in data if key not in kept}
    if hold is None:
        return gone
    entry = json.dumps({"node": hold.node_name, "gpus": hold.gpus, "until": round(hold.until)})
    return {**gone, hold.service: entry}


def held_gpus(holds: Iterable[Hold], seen: Mapping[str, int], without: str | None = None) -> Counter[str]:
    """Held GPUs by node. `seen` is how many GPUs the pods of each service have, on whatever nodes."""
    held: Counter[str] = Counter()
    for hold in holds:
        if hold.service != without:
            held[hold.node_name] += max(0, hold.gpus - seen.get(hold.service, 0))
    return held


def _hold(key: str, value: Any) -> Hold | None:
    try:
        entry = json.loads(value)
        node, gpus, until = entry["node"], entry["gpus"], float(entry["until"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not isinstance(node, str) or not isinstance(gpus, int) or isinstance(gpus, bool):
        return None
    return Hold(key, node, gpus, until) if 1 <= gpus <= _MOST_GPUS and math.isfinite(until) else None
