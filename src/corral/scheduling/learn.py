"""What the cluster should expect, learned from what has arrived, and when its prices are due to be worked out again."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from corral.model.job import Request
from corral.model.units import MILLI_PER_DEVICE
from corral.scheduling.columns import CPU, MEMORY, Columns, member_of
from corral.scheduling.duals import Ascent, Duals, Expected
from corral.scheduling.score import Floats
from corral.scheduling.value import Prices

FIRST_SOLVE, GROWTH = 32, 1.6
"""Arrivals before the first solve on evidence; the next is due when there are GROWTH times as many."""

CLASSES = 256
"""Request classes that a solve looks at: the most frequent."""

CORE_GRID = (0.0, 0.1, 0.2, 0.35, 0.55, 0.85, 1.5, 3.0)
GIB_GRID = (0.0, 0.2, 0.5)
"""Prices tried, in GPUs for all the cores, or all the memory, that the median device has beside it."""

PRIOR = ((1000, 8.0), (500, 4.0), (250, 4.0))
PRIOR_HOST = 0.75
"""What to expect before anything came: (share, weight in arrivals), and how much of its part of the host each takes."""


@dataclass(slots=True)
class Mix:
    """How often each sort of request arrived, older arrivals counting less: half as much after `half_life` more."""

    half_life: float
    arrived: int = 0
    _weights: dict[Request, float] = field(default_factory=dict)
    _unit: float = 1.0

    def observe(self, request: Request) -> None:
        """Count one arrival; each member of a gang counts."""
        self.arrived += 1
        self._unit *= 2.0 ** (1.0 / self.half_life)
        self._weights[request] = self._weights.get(request, 0.0) + self._unit * request.gang_size
        if self._unit > 1e9:
            self._weights = {key: weight / self._unit for key, weight in self._weights.items() if weight > 1e-3}
            self._unit = 1.0

    def host_milli(self) -> float:
        """Milli-CPU that the jobs without devices asked for, weighted as arrivals are."""
        return sum(w * request.cpu_milli for request, w in self._weights.items() if not request.devices) / self._unit

    def classes(self) -> list[tuple[Request, float]]:
        """Sorts of device requests with their weights in arrivals, the heaviest first."""
        merged: dict[Request, float] = {}
        for request, weight in self._weights.items():
            if request.devices:
                key = _sort_of(request)
                merged[key] = merged.get(key, 0.0) + weight / self._unit
        return sorted(merged.items(), key=lambda pair: -pair[1])[:CLASSES]


def _sort_of(request: Request) -> Request:
    """The request without what a price does not depend on."""
    return replace(member_of(request), device_uuids=(), labels=(), accept_in_use=None, split_milli=None, tenant=None)


class Learner:
    """Watches arrivals and keeps prices. `observe` is cheap; `advance` does one bounded step of a solve that is due."""

    def __init__(self, columns: Columns, mix: Mix | None = None) -> None:
        """`mix` is what was learned before, of other columns perhaps."""
        devices = int((columns.free_milli >= 0).sum())
        self._columns = columns
        self._devices = devices
        self.mix = mix or Mix(half_life=max(10_000.0, 4.0 * devices))
        self._grid, self._prior = _grid_and_prior(columns)
        self._duals = Duals({}, 0.0)
        self._due = 0
        self._solve: Ascent | None = None

    @property
    def due(self) -> bool:
        """Whether `advance` has something to do."""
        return self._solve is not None or self.mix.arrived >= self._due

    def observe(self, request: Request) -> None:
        """Take note of a request that has arrived, once, whether or not it can be placed."""
        self.mix.observe(request)

    def advance(self) -> Prices | None:
        """One step of the solve that is due, if any; the new prices when it was the last."""
        if not self.due:
            return None
        if self._solve is None:
            self._solve = self._begin()
        elif self._solve.advance():
            return self._finish(self._solve)
        return None

    def settle(self) -> Prices:
        """New prices at once, for a start: every step of a solve together."""
        self._solve = self._solve or self._begin()
        while not self._solve.advance():
            pass
        return self._finish(self._solve)

    def _begin(self) -> Ascent:
        arrived = self.mix.arrived
        patience = max(500, self._devices // 2)
        self._due = max(FIRST_SOLVE, min(int(arrived * GROWTH), arrived + patience))
        expected = Expected((*self.mix.classes(), *self._prior), self.mix.host_milli() / 1000)
        return Ascent(self._columns, self._grid, expected, self._duals)

    def _finish(self, solve: Ascent) -> Prices:
        self._duals, self._solve = solve.duals(), None
        return solve.prices()


def _grid_and_prior(columns: Columns) -> tuple[tuple[Floats, Floats], list[tuple[Request, float]]]:
    """Price pairs, and the requests to expect at first, both by the host's part that goes with the median device."""
    devices = (columns.free_milli >= 0).sum(axis=0)
    hosts = np.flatnonzero(devices)
    counts = devices[hosts]
    milli, mib = (_median(columns.host[column, hosts] / counts, counts) for column in (CPU, MEMORY))
    core, gib = np.meshgrid(CORE_GRID, GIB_GRID, indexing="ij")
    grid = (core.ravel() / max(milli / 1000, 1.0), gib.ravel() / max(mib / 1024, 1.0))
    prior = [
        (
            Request(
                share_milli=share,
                cpu_milli=int(milli * PRIOR_HOST * share / MILLI_PER_DEVICE),
                host_memory_mib=int(mib * PRIOR_HOST * share / MILLI_PER_DEVICE),
            ),
            weight,
        )
        for share, weight in PRIOR
    ]
    return grid, prior


def _median(amounts: Floats, counts: NDArray[np.intp]) -> float:
    """The median of amounts that count so often each; 0 where there are none."""
    return float(np.median(np.repeat(amounts, counts))) if len(amounts) else 0.0
