"""Prices as the dual variables of the problem "fill what is free now with the expected mix of requests".

The problem maximises the GPUs served, with no request class served more than its part of the mix. The Lagrangian
separates by node and by device. One iteration of the dual ascent is a knapsack over the remainders of a device, and a
count of what its solution uses (`knapsack`). A temperature smooths hard choices. Iterations run between decisions, one
at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import could_use
from corral.core.model.placing.state import Slot
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.scores import Floats
from corral.core.scheduling.placing.worth.knapsack import Knapsack
from corral.core.scheduling.placing.worth.values import LEVELS, STEP_MILLI, DeviceClass, Prices, Remainders
from corral.core.scheduling.state.columns import CPU, MEMORY, Columns

ITERATIONS = 50
HOT, COLD = 0.03, 0.01
"""The temperature, in GPUs, of the first and the last iteration. Prices are taken at COLD."""

STEP_SIZE = 0.5
FLOOR_LIMIT = 1 / 30
"""The floor under the price of a core is at most this fraction of the highest price tried.

Jobs without devices may ask for more cores than exist. Without this limit every device would then be worth nothing, and
all placements would be equally good.
"""

ROWS_SOLVED = 1536
"""The most nodes that a solve looks at. If there are more, it takes an even sample."""


@dataclass(frozen=True, slots=True)
class ExpectedArrivals:
    """The expected mix: classes of device requests with weights, and the cores that jobs without devices ask for."""

    classes: tuple[tuple[Request, float], ...]
    host_cores: float


@dataclass(frozen=True, slots=True)
class Duals:
    """The result of an ascent, from which the next one starts.

    Attributes:
        scarcity: by class, the GPUs by which a request is worth less than it asks for, since too few arrive.
        floor: the worth of a core in GPUs on every node, since jobs without devices need cores too.
    """

    scarcity: Mapping[Request, float]
    floor: float


class _FreeCapacity:
    """The free capacity of each node: cores, GiB, and the remainders of its devices.

    Device classes that the same requests may use form one *sort*. A remainder is a pair (sort, level).
    """

    def __init__(self, columns: Columns, requests: list[Request], core: Floats, gib: Floats) -> None:
        stride = -(-len(columns) // ROWS_SOLVED) or 1
        rows = np.arange(0, len(columns), stride, dtype=np.intp)
        remainders = Remainders(columns)
        keys = np.ascontiguousarray(remainders.keys(columns, rows).T)
        self.classes = tuple(remainders.classes)
        allowed = np.array([[could_use(r, _slot(c)) for r in requests] for c in self.classes], dtype=np.bool_)
        self.sorts, sort_of_class = np.unique(allowed.reshape(-1, len(requests)), axis=0, return_inverse=True)
        self.sort_of_class = sort_of_class.ravel()
        self._index(keys, len(core))
        self.cores = np.maximum(columns.free_host[CPU, rows], 0) / 1000
        self._host = core[:, None] * self.cores + gib[:, None] * (columns.free_host[MEMORY, rows] / 1024)
        self.gpus = float(np.maximum(columns.free_milli[rows], 0).sum()) / MILLI_PER_DEVICE

    def _index(self, keys: np.ndarray[tuple[int, ...], np.dtype[np.int64]], pairs: int) -> None:
        by_sort = self.sort_of_class[np.maximum(keys, 0) // LEVELS] * LEVELS + keys % LEVELS
        present, inverse = np.unique(np.where(keys < 0, -1, by_sort), return_inverse=True)
        useful = (present >= 0) & (present % LEVELS > 0)
        self._sort, self._level = np.divmod(present[useful], LEVELS)
        self._slots = np.where(useful, np.cumsum(useful) - 1, -1)[inverse].reshape(keys.shape)
        slots, self._entry_rows = np.nonzero(self._slots >= 0)
        entries = self._slots[slots, self._entry_rows]
        self._entry_keys = (np.arange(pairs)[:, None] * len(self._level) + entries).ravel()

    def values(self, worth: Floats, floor: float) -> Floats:
        """float[k, nodes]: the value of each node at each price pair, given `worth` and a floor under the core price.

        `worth` is float[LEVELS, sorts, k].
        """
        table = np.zeros((worth.shape[2], len(self._level) + 1))
        table[:, :-1] = worth[self._level, self._sort].T
        at_price: Floats = self._host + floor * self.cores + table.take(self._slots, axis=1).sum(axis=1)
        return at_price

    def filled(self, part: Floats) -> Floats:
        """float[LEVELS, sorts, k]: the devices of each remainder, each node weighted by `part`, float[k, nodes].

        Counted with bincount instead of a matrix product, which would start threads on a busy host.
        """
        pairs, size = len(part), len(self._level)
        weights = part.take(self._entry_rows, axis=1).ravel()
        counted = np.bincount(self._entry_keys, weights=weights, minlength=pairs * size)
        filled = np.zeros((LEVELS, len(self.sorts), pairs))
        filled[self._level, self._sort] = counted.reshape(pairs, size).T
        return filled


class Ascent:
    """Dual ascent. The scarcity of a class rises while more of it would be served than is expected to arrive.

    Jobs without devices need cores too: the floor under the price of a core rises while too few cores would be left.
    """

    def __init__(self, columns: Columns, grid: tuple[Floats, Floats], expected: ExpectedArrivals, start: Duals) -> None:
        """`grid` has the price pairs, GPUs per core and GPUs per GiB; `expected` must have at least one class."""
        self._core, self._gib = grid
        self._requests = [request for request, _ in expected.classes]
        self._scarcity = np.array([start.scarcity.get(request, 0.0) for request in self._requests])
        self._floor = start.floor
        self._iteration = 0
        self._scarcity_sum, self._floor_sum = np.zeros(len(self._requests)), 0.0
        self._free = _FreeCapacity(columns, self._requests, self._core, self._gib)
        self._units = np.array([request.devices for request in self._requests], dtype=np.float64)
        self._gpus = self._units * [request.share_milli / MILLI_PER_DEVICE for request in self._requests]
        weights = np.array([weight for _, weight in expected.classes])
        scale = max(self._free.gpus, 1.0) / float((weights * self._gpus).sum())
        self._expected, self._host_expected = weights * scale, expected.host_cores * scale
        self._cores = np.array([request.cpu_milli / 1000 for request in self._requests])
        memory = np.array([request.host_memory_mib / 1024 for request in self._requests])
        self._paid = (self._core[:, None] * self._cores + self._gib[:, None] * memory) / self._units
        self._steps = np.array([-(-request.share_milli // STEP_MILLI) for request in self._requests])
        self._knapsack = Knapsack(self._steps, self._paid, self._free.sorts)

    def advance(self) -> bool:
        """Do one iteration. Return True if it was the last."""
        temperature = HOT + (COLD - HOT) * self._iteration / ITERATIONS
        self._move(self._used(temperature), temperature)
        self._iteration += 1
        if 2 * self._iteration > ITERATIONS:
            self._scarcity_sum += self._scarcity
            self._floor_sum += self._floor
        if self._iteration < ITERATIONS:
            return False
        averaged = ITERATIONS - ITERATIONS // 2
        self._scarcity, self._floor = self._scarcity_sum / averaged, self._floor_sum / averaged
        return True

    def duals(self) -> Duals:
        """The current dual variables."""
        return Duals(dict(zip(self._requests, self._scarcity.tolist(), strict=True)), self._floor)

    def prices(self) -> Prices:
        """The current worth of free capacity. Only requests for a single device count, unless there are none."""
        single = self._units == 1
        if not single.any():
            single[:] = True
        free = self._free
        knapsack = Knapsack(self._steps[single], self._paid[:, single], free.sorts[:, single])
        worth = self._shaped(knapsack.worth(self._gain()[single], COLD))
        by_class = worth[:, free.sort_of_class].transpose(2, 1, 0)
        table = np.ascontiguousarray(by_class.reshape(len(self._core), -1))
        return Prices(self._core + self._floor, self._gib, free.classes, table)

    def _used(self, temperature: float) -> Floats:
        """float[s]: the requests of each class that the free capacity would serve at the current prices."""
        at_price = self._free.values(self._shaped(self._knapsack.worth(self._gain(), temperature)), self._floor)
        at_price -= at_price.min(axis=0)
        part = np.exp(at_price / -temperature)
        part /= part.sum(axis=0)
        return self._knapsack.use(self._free.filled(part).reshape(LEVELS, -1)) / self._units

    def _move(self, used: Floats, temperature: float) -> None:
        pull = np.log(np.maximum(used, 1e-9) / self._expected)
        self._scarcity = np.clip(self._scarcity + STEP_SIZE * temperature * pull, 0.0, self._gpus)
        cores = float(self._free.cores.sum())
        lacking = self._host_expected + float((used * self._cores).sum()) - cores
        dearest = float(self._core.max())
        self._floor = min(max(0.0, self._floor + dearest * lacking / max(cores, 1.0)), FLOOR_LIMIT * dearest)

    def _gain(self) -> Floats:
        """float[s]: the worth of a unit of each class before it pays for the host, above the floor."""
        gain: Floats = (self._gpus - self._scarcity - self._floor * self._cores) / self._units
        return gain

    def _shaped(self, worth: Floats) -> Floats:
        return worth.reshape(LEVELS, len(self._free.sorts), len(self._core))


def _slot(device: DeviceClass) -> Slot:
    model, memory_mib, compute, vendor = device
    return Slot(model, memory_mib, compute, MILLI_PER_DEVICE, memory_mib, vendor=vendor)
