"""What the cluster should expect, learned from what has arrived, and the prices that follow from it.

Prices are the duals of "fill what is free now with the expected mix": maximise the GPUs served, no request class more
than its part. The Lagrangian splits by node and by device, so one iteration is a knapsack over the remainders of a
device forwards, and a count of what it would use backwards (`_Knapsack`). A temperature softens hard choices.
An iteration is a bounded step; nothing here runs inside a decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from corral.model.fit import Slot, could_use
from corral.model.job import Request
from corral.model.units import MILLI_PER_DEVICE
from corral.scheduling.columns import CPU, MEMORY, SLOTS, Columns
from corral.scheduling.score import Floats
from corral.scheduling.value import LEVELS, STEP_MILLI, DeviceClass, Prices, Remainders

ITERATIONS = 50
HOT, COLD = 0.03, 0.01
"""Temperature, in GPUs, at the first and at the last iteration of a solve. Decisions are made at COLD."""

STEP_SIZE = 0.5
FIRST_SOLVE, GROWTH = 32, 1.6
"""Arrivals before the first solve on evidence; the next is due when there are GROWTH times as many."""

CLASSES = 256
"""Request classes that a solve looks at: the most frequent."""

ROWS_SOLVED = 1536
"""Nodes that a solve looks at: an even sample where there are more."""

CORE_GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0)
GIB_GRID = (0.0, 0.2, 0.5)
"""Prices tried, as parts of a GPU for all the cores, or all the memory, that the median device has beside it."""

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
    return replace(
        request,
        gang_size=1,
        one_node=False,
        spread=False,
        avoid_jobs=(),
        device_uuids=(),
        labels=(),
        accept_in_use=None,
    )


class Learner:
    """Watches arrivals and keeps prices. `observe` is cheap; `advance` does one bounded step of a solve that is due."""

    def __init__(self, columns: Columns) -> None:
        devices = int((columns.free_milli >= 0).sum())
        self._columns = columns
        self._devices = devices
        self.mix = Mix(half_life=max(10_000.0, 4.0 * devices))
        self._grid, self._prior = _grid_and_prior(columns)
        self._scarcity: dict[Request, float] = {}
        self._due = 0
        self._solve: _Solve | None = None

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

    def _begin(self) -> "_Solve":
        arrived = self.mix.arrived
        patience = max(500, self._devices // 2)
        self._due = max(FIRST_SOLVE, min(int(arrived * GROWTH), arrived + patience))
        classes = [*self.mix.classes(), *self._prior]
        scarcity = [self._scarcity.get(request, 0.0) for request, _ in classes]
        return _Solve(self._columns, self._grid, classes, np.array(scarcity))

    def _finish(self, solve: "_Solve") -> Prices:
        self._scarcity = dict(zip(solve.requests, solve.scarcity.tolist(), strict=True))
        self._solve = None
        return solve.prices()


def _grid_and_prior(columns: Columns) -> tuple[tuple[Floats, Floats], list[tuple[Request, float]]]:
    """Price pairs, and the requests to expect at first, both by the host's part that goes with the median device.

    What is free stands for what there is: only the scale counts, and a cluster is mostly empty when it is first seen.
    """
    devices = (columns.free_milli >= 0).sum(axis=0)
    hosts = np.flatnonzero(devices)
    counts = devices[hosts]
    milli, mib = (_median(columns.amounts[column, hosts] / counts, counts) for column in (CPU, MEMORY))
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
    """The median of amounts that count so often each; 0 where there are none, or what there is is overdrawn."""
    return max(0.0, float(np.median(np.repeat(amounts, counts)))) if len(amounts) else 0.0


class _Knapsack:
    """The worth of every remainder when request classes pay for what they take.

    Classes that take as many steps are told apart only by what they pay, so the knapsack runs over step counts. Arrays:
    q sorts of device (those that the same classes may use), k price pairs, s classes, g step counts, LEVELS remainders.
    """

    def __init__(self, steps: NDArray[np.int64], paid: Floats, allowed: NDArray[np.bool_]) -> None:
        """`steps`: int[s]; `paid`: float[k, s] for the host; `allowed`: bool[q, s]."""
        self.order = np.argsort(steps, kind="stable")
        self.sizes, self._starts = np.unique(steps[self.order], return_index=True)
        self._group = np.searchsorted(self.sizes, steps[self.order])
        self._paid = paid[:, self.order]
        self._allowed = allowed[:, None, self.order]
        self._back = np.concatenate([[1], self.sizes])
        self.width = allowed.shape[0] * paid.shape[0]
        self._shares: list[Floats | None] = [None] * LEVELS
        self._single: Floats = np.zeros(0)
        self._best: Floats = np.zeros(0)

    def worth(self, gain: Floats, temperature: float) -> Floats:
        """float[LEVELS, q * k]: the softened maximum; `gain` is what one unit of each class brings before it pays."""
        single = np.where(self._allowed, gain[self.order] - self._paid, -1e9)
        top = np.maximum.reduceat(single, self._starts, axis=2)
        part = np.exp((single - top[:, :, self._group]) / temperature)
        total = np.add.reduceat(part, self._starts, axis=2)
        self._single = part / total[:, :, self._group]
        best = (top + temperature * np.log(total)).transpose(2, 0, 1).reshape(len(self.sizes), self.width)
        offer = np.concatenate([np.zeros((1, self.width)), best])
        worth = np.zeros((LEVELS, self.width))
        for level in range(1, LEVELS):
            choices = 1 + int(np.searchsorted(self.sizes, level, side="right"))
            if choices == 1:
                continue
            rest = worth[level - self._back[:choices]]
            rest += offer[:choices]
            high = rest.max(axis=0)
            rest -= high
            rest /= temperature
            np.exp(rest, out=rest)
            total = rest.sum(axis=0)
            rest /= total
            self._shares[level] = rest
            worth[level] = high + temperature * np.log(total)
        return worth

    def use(self, devices: Floats) -> Floats:
        """float[s]: units of each class that so many devices of each remainder, float[LEVELS, q * k], would serve."""
        left = devices.copy()
        used = np.zeros((len(self.sizes), self.width))
        for level in range(LEVELS - 1, 0, -1):
            shares = self._shares[level]
            if shares is None:
                continue
            flow = shares * left[level]
            left[level - self._back[: len(flow)]] += flow
            used[: len(flow) - 1] += flow[1:]
        by_sort = used.reshape(len(self.sizes), *self._single.shape[:2]).transpose(1, 2, 0)
        units = np.zeros(len(self.order))
        units[self.order] = (self._single * by_sort[:, :, self._group]).sum(axis=(0, 1))
        return units


class _Solve:
    """One dual ascent: the scarcity of each class rises while more of it would be used than is to be expected."""

    def __init__(
        self,
        columns: Columns,
        grid: tuple[Floats, Floats],
        classes: Sequence[tuple[Request, float]],
        scarcity: Floats,
    ) -> None:
        self.requests = [request for request, _ in classes]
        self.scarcity = scarcity
        self._grid = grid
        self._iteration = 0
        self._sum = np.zeros(len(classes))
        self._units = np.array([request.devices for request in self.requests], dtype=np.float64)
        self._gpus = self._units * [request.share_milli / MILLI_PER_DEVICE for request in self.requests]
        self._read(columns)
        weights = np.array([weight for _, weight in classes])
        self._expected = weights * (max(self._free, 1.0) / float((weights * self._gpus).sum()))
        core, gib = grid
        cpu = np.array([request.cpu_milli / 1000 for request in self.requests])
        memory = np.array([request.host_memory_mib / 1024 for request in self.requests])
        self._paid = (core[:, None] * cpu + gib[:, None] * memory) / self._units
        self._steps = np.array([-(-request.share_milli // STEP_MILLI) for request in self.requests])
        self._knapsack = _Knapsack(self._steps, self._paid, self._sorts)

    def advance(self) -> bool:
        """One iteration; True when it was the last."""
        cooled = self._iteration / ITERATIONS
        temperature = HOT + (COLD - HOT) * cooled
        worth = self._knapsack.worth((self._gpus - self.scarcity) / self._units, temperature)
        pairs = len(self._grid[0])
        table = np.zeros((pairs, len(self._level) + 1))
        table[:, :-1] = worth.reshape(LEVELS, len(self._sorts), pairs)[self._level, self._sort].T
        at_price = self._host + table.take(self._slots, axis=1).sum(axis=1)
        at_price -= at_price.min(axis=0)
        part = np.exp(at_price / -temperature)
        part /= part.sum(axis=0)
        filled = np.zeros((LEVELS, len(self._sorts), pairs))
        filled[self._level, self._sort] = self._devices @ part.T
        used = self._knapsack.use(filled.reshape(LEVELS, -1)) / self._units
        pull = np.log(np.maximum(used, 1e-9) / self._expected)
        self.scarcity = np.clip(self.scarcity + STEP_SIZE * temperature * pull, 0.0, self._gpus)
        self._iteration += 1
        if 2 * self._iteration > ITERATIONS:
            self._sum += self.scarcity
        if self._iteration < ITERATIONS:
            return False
        self.scarcity = self._sum / (ITERATIONS - ITERATIONS // 2)
        return True

    def prices(self) -> Prices:
        """The prices of this solve. No remainder is kept for requests of several devices, though they are expected."""
        core, gib = self._grid
        single = self._units == 1
        if not single.any():
            single[:] = True
        knapsack = _Knapsack(self._steps[single], self._paid[:, single], self._sorts[:, single])
        gain = (self._gpus - self.scarcity) / self._units
        worth = knapsack.worth(gain[single], COLD).reshape(LEVELS, len(self._sorts), len(core))
        by_class = worth[:, self._sort_of_class].transpose(2, 1, 0)
        return Prices(core, gib, self._classes, np.ascontiguousarray(by_class.reshape(len(core), -1)))

    def _read(self, columns: Columns) -> None:
        """Take in what is free: rows, and for each the count of devices by class and remainder."""
        stride = -(-len(columns) // ROWS_SOLVED) or 1
        rows = np.arange(0, len(columns), stride, dtype=np.intp)
        remainders = Remainders(columns)
        keys = remainders.keys(columns, rows)
        self._classes = tuple(remainders.classes)
        allowed = np.array([[could_use(r, _slot(c)) for r in self.requests] for c in self._classes], dtype=np.bool_)
        allowed = allowed.reshape(len(self._classes), len(self.requests))
        self._sorts, sort_of_class = np.unique(allowed, axis=0, return_inverse=True)
        self._sort_of_class = sort_of_class.ravel()
        sorted_keys = self._sort_of_class[np.maximum(keys, 0) // LEVELS] * LEVELS + keys % LEVELS
        present, inverse = np.unique(np.where(keys < 0, -1, sorted_keys), return_inverse=True)
        useful = (present >= 0) & (present % LEVELS > 0)
        self._sort, self._level = np.divmod(present[useful], LEVELS)
        self._slots = np.where(useful, np.cumsum(useful) - 1, -1)[inverse].reshape(keys.shape)
        self._devices = np.zeros((len(self._level) + 1, len(rows)))
        np.add.at(self._devices, (self._slots, np.arange(len(rows))), 1.0)
        self._devices = self._devices[:-1]
        core, gib = self._grid
        cpu, memory = columns.amounts[CPU, rows] / 1000, columns.amounts[MEMORY, rows] / 1024
        self._host = core[:, None] * cpu + gib[:, None] * memory
        self._free = float(np.maximum(columns.amounts[SLOTS:, rows], 0).sum()) / MILLI_PER_DEVICE


def _slot(device: DeviceClass) -> Slot:
    model, memory_mib, compute = device
    return Slot(model, memory_mib, compute, MILLI_PER_DEVICE, memory_mib)
