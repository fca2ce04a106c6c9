"""The requests to expect: those that have arrived. Older arrivals count less."""

from dataclasses import dataclass, field, replace
from typing import Any

from corral.core.model.jobs.job import Request

CLASSES = 256
"""The most request classes that are kept: the most frequent ones."""


@dataclass(slots=True)
class ArrivalMix:
    """The number of arrivals of each request. An arrival counts half after `half_life` further arrivals.

    `shared` says whether any request asked for less than whole devices.
    """

    half_life: float = 10_000.0
    arrived: int = 0
    shared: bool = False
    _weights: dict[Request, float] = field(default_factory=dict)
    _unit: float = 1.0

    def observe(self, request: Request) -> None:
        """Count one arrival; every member of a gang counts."""
        self.arrived += 1
        self.shared = self.shared or (request.devices > 0 and not request.whole)
        self._unit *= 2.0 ** (1.0 / self.half_life)
        self._weights[request] = self._weights.get(request, 0.0) + self._unit * request.gang_size
        if self._unit > 1e9:
            self._weights = {key: weight / self._unit for key, weight in self._weights.items() if weight > 1e-3}
            self._unit = 1.0

    def host_milli(self) -> float:
        """Milli-CPU that jobs without devices asked for, weighted like arrivals."""
        return sum(w * request.cpu_milli for request, w in self._weights.items() if not request.devices) / self._unit

    def classes(self) -> list[tuple[Request, float]]:
        """Classes of device requests with their weights in arrivals, the heaviest first."""
        merged: dict[Request, float] = {}
        for request, weight in self._weights.items():
            if request.devices:
                key = _sort_of(request)
                merged[key] = merged.get(key, 0.0) + weight / self._unit
        return sorted(merged.items(), key=lambda pair: -pair[1])[:CLASSES]


def _sort_of(request: Request) -> Request:
    """One member of the request, with only the fields that prices depend on."""
    one = replace(request, gang_size=1, one_node=False, spread=False, avoid_jobs=(), cores_percent=None)
    anywhere: dict[str, Any] = {"node": None, "nodes": (), "excluded_nodes": (), "labels": (), "prefers": ()}
    anywhere |= {"device_uuids": (), "avoided": ()}
    return replace(one, **anywhere, disk_mib=0, accept_in_use=None, split_milli=None, tenant=None)
