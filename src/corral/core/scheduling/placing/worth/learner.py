"""Learns prices from arrivals: decides when to solve anew, and does one bounded step of a solve at a time."""

import numpy as np
from numpy.typing import NDArray

from corral.core.model.jobs.job import Request
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.scores import Floats
from corral.core.scheduling.placing.worth.arrival_mix import ArrivalMix
from corral.core.scheduling.placing.worth.duals import Ascent, Duals, ExpectedArrivals
from corral.core.scheduling.placing.worth.values import Prices
from corral.core.scheduling.state.columns import CPU, MEMORY, Columns

FIRST_SOLVE, GROWTH = 32, 1.6
"""The number of arrivals before the first solve. The next is due after GROWTH times as many arrivals."""

CORE_GRID = (0.0, 0.1, 0.2, 0.35, 0.55, 0.85, 1.5, 3.0)
GIB_GRID = (0.0, 0.2, 0.5)
"""The prices tried: GPUs for all the cores, or all the host memory, per device of the median node."""

PRIOR = ((1000, 8.0), (500, 4.0), (250, 4.0))
PRIOR_HOST = 0.75
"""The expectation before any arrival: (share, weight in arrivals), and the part of its share of the host it takes."""


class Learner:
    """Computes prices for a mix of arrivals: `advance` does one bounded step of a solve that is due."""

    def __init__(self, columns: Columns, mix: ArrivalMix | None = None) -> None:
        """`mix` counts the arrivals, possibly earlier ones too; it may be shared with other learners."""
        mix = ArrivalMix() if mix is None else mix
        self._columns = columns
        self._devices = int((columns.free_milli >= 0).sum())
        self.mix = mix
        mix.half_life = max(mix.half_life, 4.0 * self._devices)
        self._grid, self._prior = _grid_and_prior(columns)
        self._duals = Duals({}, 0.0)
        self._due = 0
        self._solve: Ascent | None = None

    @property
    def due(self) -> bool:
        """Whether `advance` has something to do."""
        return self._solve is not None or self.mix.arrived >= self._due

    def observe(self, request: Request) -> None:
        """Count a request that has arrived. Call it once, whether or not the request can be placed."""
        self.mix.observe(request)

    def advance(self) -> Prices | None:
        """Do one step of the solve that is due, if any. Return the new prices after the last step, else None."""
        if not self.due:
            return None
        if self._solve is None:
            self._solve = self._begin()
        elif self._solve.advance():
            return self._finish(self._solve)
        return None

    def first(self) -> Prices:
        """The first prices, at which nothing is scarce. They cost one step of a solve."""
        return self._ascent().prices()

    def settle(self) -> Prices:
        """Do all steps of a solve at once. Return the new prices."""
        self._solve = self._solve or self._begin()
        while not self._solve.advance():
            pass
        return self._finish(self._solve)

    def _begin(self) -> Ascent:
        arrived = self.mix.arrived
        patience = max(500, self._devices // 2)
        self._due = max(FIRST_SOLVE, min(int(arrived * GROWTH), arrived + patience))
        return self._ascent()

    def _ascent(self) -> Ascent:
        expected = ExpectedArrivals((*self.mix.classes(), *self._prior), self.mix.host_milli() / 1000)
        return Ascent(self._columns, self._grid, expected, self._duals)

    def _finish(self, solve: Ascent) -> Prices:
        self._duals, self._solve = solve.duals(), None
        return solve.prices()


def _grid_and_prior(columns: Columns) -> tuple[tuple[Floats, Floats], list[tuple[Request, float]]]:
    """The price pairs and the first expected requests, scaled to the median node's cores and GiB per device."""
    devices = (columns.free_milli >= 0).sum(axis=1)
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
    """The weighted median of amounts; 0 if there are none."""
    return float(np.median(np.repeat(amounts, counts))) if len(amounts) else 0.0
