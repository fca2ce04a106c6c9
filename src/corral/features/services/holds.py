"""GPUs chosen for services whose pods are not visible yet. Pure.

All deployments share one object of the cluster with an entry for each hold. Times are the API server's, so that
differing clocks do not matter. A hold stays until its deadline. It counts for the GPUs that the service's pods do not
have yet, as seen by the reader. So a client that reads pods late never takes the GPUs for free.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HOLD_S = 300.0
"""The time in which an operator makes the pods and Kubernetes binds them."""

_MOST_GPUS = 1024
MOST_PODS = 256
"""The most pods of a service that start together."""


@dataclass(frozen=True, slots=True)
class Hold:
    """GPUs for one service: so many for each of its pods, one of which goes to each node.

    Attributes:
        service: `via.namespace.name`, which is also the entry's key.
        until: seconds since 1970, by the API server's clock.
        beside: the nodes of its other pods; a node is named once for each pod.
    """

    service: str
    node_name: str
    gpus: int
    until: float
    beside: tuple[str, ...] = ()


def service_key(via: str, namespace: str, name: str) -> str:
    """Return the key of a service among the holds."""
    return f"{via}.{namespace}.{name}"


def holds_in(data: Mapping[str, Any], now: float) -> list[Hold]:
    """The holds that have not ended, by service. Entries that make no sense, or last too long, are left out."""
    found = (_hold(str(key), value) for key, value in sorted(data.items()))
    return [hold for hold in found if hold is not None and now < hold.until <= now + 2 * HOLD_S]


def changes(
    data: Mapping[str, Any], now: float, hold: Hold | None, removed: str | None = None
) -> dict[str, str | None]:
    """Return a merge patch of the object's data: the new hold, and None for each entry to remove."""
    kept = {one.service for one in holds_in(data, now)} - {removed}
    gone: dict[str, str | None] = {str(key): None for key in data if key not in kept}
    if hold is None:
        return gone
    entry = {"node": hold.node_name, "gpus": hold.gpus, "until": round(hold.until)}
    if hold.beside:
        entry["beside"] = list(hold.beside)
    return {**gone, hold.service: json.dumps(entry)}


def held_gpus(holds: Iterable[Hold], seen: Mapping[str, int], without: str | None = None) -> Counter[str]:
    """Return the number of held GPUs by node. `seen` is the number of GPUs that the pods of each service have, on any
    node.
    """
    held: Counter[str] = Counter()
    for hold in holds:
        if hold.service == without:
            continue
        there = seen.get(hold.service, 0)
        for node in (hold.node_name, *hold.beside):
            held[node] += max(0, hold.gpus - there)
            there = max(0, there - hold.gpus)
    return held


def _hold(key: str, value: Any) -> Hold | None:
    try:
        entry = json.loads(value)
        node, gpus, until = entry["node"], entry["gpus"], float(entry["until"])
        beside = entry.get("beside", [])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not isinstance(node, str) or not isinstance(gpus, int) or isinstance(gpus, bool):
        return None
    if not isinstance(beside, list) or len(beside) >= MOST_PODS or not all(isinstance(one, str) for one in beside):
        return None
    return Hold(key, node, gpus, until, tuple(beside)) if 1 <= gpus <= _MOST_GPUS and math.isfinite(until) else None
