"""The worth of a node's free capacity, in GPUs, at given prices. The `corral` policy places where least worth is lost.

V(n) = min over price pairs (mu, nu) of  mu x free cores + nu x free GiB + sum over devices of v(remainder; mu, nu)

v is the most GPU work that jobs of the expected mix can get from the free part of a device. They pay mu per core and
nu per GiB of the host that they take. The minimum is a Lagrangian bound on what the node can still serve. Cores that
GPUs need to be usable have a price; GPUs without cores for them are worth nothing.
See docs/decisions/0020-packing-by-value.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import grant_memory_mib, share_milli_of
from corral.core.model.placing.state import NodeState, Slot
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.scores import Floats, Granularity, PlacementOptions
from corral.core.scheduling.state.columns import CPU, MEMORY, NO_SLOT, Columns, Rows, Shape, in_parts

STEP_MILLI = 10
STEPS = MILLI_PER_DEVICE // STEP_MILLI
LEVELS = STEPS + 1
"""Remainders (the free part of a device) are rounded down to steps of 10 milli-GPU, from 0 to the whole device."""

NOTHING = -1
"""The key of a slot that a node does not have. It is the last column of every table by key."""

GRAIN = 2.0**-40
"""Worths are whole multiples of this: their sums are then exact and the same in any order."""

EARLIER_FIRST, EARLIER_BY_ONE = 1.6, 0.01
"""The extra worth, in GPUs, that the last node must offer over the first to be taken, and the most per node.

Packing is equally good with any first number between 0.8 and 6.4. The second matters only below 160 nodes.
"""

LOSSES_KEPT = 1024

FEW = 48
"""The worth of up to this many rows is computed on demand. For more rows it is kept and renewed for changed rows."""

DeviceClass = tuple[str, int | None, tuple[int, int] | None, str]
"""(model, memory in MiB, compute capability, vendor): the devices of a class are equal for every request."""


def class_of(slot: Slot) -> DeviceClass:
    """The device class of a slot."""
    return slot.model, slot.memory_mib, slot.compute, slot.vendor


@dataclass(frozen=True, slots=True)
class Prices:
    """The worth of free capacity.

    Attributes:
        core, gib: float64[k], price pairs in GPUs per core and per GiB of host memory.
        classes: the device classes that `worth` knows, in its order.
        worth: float64[k, len(classes) * LEVELS], the worth of a device of each class by the steps left.
    """

    core: Floats
    gib: Floats
    classes: tuple[DeviceClass, ...]
    worth: Floats


class Remainders:
    """The free part of every device in steps, as a key: class x LEVELS + steps, or NOTHING if there is no slot."""

    def __init__(self, columns: Columns) -> None:
        self.classes: dict[DeviceClass, int] = {}
        self._known = 0
        self._by_memory = False
        self._base = np.zeros((0, columns.width), dtype=np.int64)
        self._memory_mib = np.zeros((0, columns.width), dtype=np.int64)

    def keys(self, columns: Columns, rows: Rows) -> NDArray[np.int64]:
        """int64[n, slots]: the key of each slot of the rows."""
        if self._known < len(columns.kinds):
            self._learn(columns)
        free_milli = free = columns.free_milli.take(rows, axis=0)
        if self._by_memory:
            memory_mib = self._memory_mib.take(columns.kind.take(rows), axis=0)
            by_memory = columns.free_mib.take(rows, axis=0) * MILLI_PER_DEVICE // np.maximum(memory_mib, 1)
            by_both = np.where(memory_mib > 0, np.clip(by_memory, 0, np.maximum(free, 0)), free)
            free = np.where(free_milli < 0, NO_SLOT, by_both)
        if len(self.classes) < 2:
            return np.asarray(np.maximum(free, NO_SLOT) // STEP_MILLI, dtype=np.int64)
        keys = free // STEP_MILLI
        keys += self._base.take(columns.kind.take(rows), axis=0)
        keys[free_milli < 0] = NOTHING
        return keys

    def _learn(self, columns: Columns) -> None:
        new = columns.kinds[self._known :]
        base = np.zeros((len(new), columns.width), dtype=np.int64)
        memory = np.zeros((len(new), columns.width), dtype=np.int64)
        for at, kind in enumerate(new):
            self._note(kind, base[at], memory[at])
        self._base = np.concatenate([self._base, base])
        self._memory_mib = np.concatenate([self._memory_mib, memory])
        self._by_memory = bool(self._memory_mib.any())
        self._known = len(columns.kinds)

    def _note(self, kind: NodeState, base: NDArray[np.int64], memory: NDArray[np.int64]) -> None:
        for i, slot in enumerate(kind.slots):
            base[i] = self.classes.setdefault(class_of(slot), len(self.classes)) * LEVELS
            memory[i] = slot.memory_mib or 0


class WorthScore:
    """The score of the `corral` policy: V after the placement minus V before it, mildly preferring earlier nodes.

    V alone is concave and would spread work over many half-filled nodes. EARLIER_FIRST keeps their number small.
    """

    granularity = Granularity.SHARES

    def __init__(self, columns: Columns, prices: Prices) -> None:
        self.version = 0
        self._columns = columns
        self._remainders = Remainders(columns)
        self._keys = np.zeros((len(columns), columns.width), dtype=np.int64)
        self._pull = np.arange(len(columns)) * min(EARLIER_FIRST / max(1, len(columns)), EARLIER_BY_ONE)
        self.use(prices)

    def use(self, prices: Prices) -> None:
        """Use these prices from now on."""
        size = len(self._columns)
        self.version += 1
        self.prices = prices
        self._at_price = np.zeros((size, len(prices.core)))
        self._value = np.zeros(size)
        self._losses: dict[Shape, Floats] = {}
        self._core = _grained(prices.core / 1000)
        self._gib = _grained(prices.gib / 1024)
        self._worth = np.zeros((1, len(prices.core)))
        self._place = -1

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        shape, rows, slots = options
        keys, after, before = self._known(rows) if len(rows) > FEW else self._computed(rows)
        loss = self._losses.get(shape)
        if loss is None:
            if len(self._losses) >= LOSSES_KEPT:
                self._losses.clear()
            loss = self._losses[shape] = self._loss(shape.request)
        for chosen in slots:
            after -= loss.take(keys[np.arange(len(rows)), chosen], axis=0)
        if not len(slots):
            after -= loss
        lost: Floats = np.minimum.reduce(after, axis=1)
        lost -= before
        lost -= self._pull.take(rows)
        return lost

    def _known(self, rows: Rows) -> tuple[NDArray[np.int64], Floats, Floats]:
        """The result of `_computed`, from values that are kept for every row."""
        columns = self._columns
        changed = columns.changed_rows.since(self._place)
        self._place = columns.changed_rows.place
        if changed is None or len(changed) > len(columns):
            changed = np.arange(len(columns), dtype=np.intp)
        for some in in_parts(changed):
            self._keys[some], self._at_price[some], self._value[some] = self._computed(some)
        return self._keys.take(rows, axis=0), self._at_price.take(rows, axis=0), self._value.take(rows)

    def _computed(self, rows: Rows) -> tuple[NDArray[np.int64], Floats, Floats]:
        """(int64[n, slots], float64[n, k], float64[n]): the keys of each row, its worth at each price, and V."""
        columns = self._columns
        keys = self._remainders.keys(columns, rows)
        if len(self._worth) != len(self._remainders.classes) * LEVELS + 1:
            self._widen()
        host = columns.free_host.take(rows, axis=1).astype(np.float64)
        at_price = host[CPU, :, None] * self._core
        at_price += host[MEMORY, :, None] * self._gib
        at_price += np.add.reduce(self._worth.take(keys, axis=0), axis=1)
        return keys, at_price, np.minimum.reduce(at_price, axis=1)

    def _widen(self) -> None:
        """Arrange the worths by the classes of these columns. A class without prices is worth its free part."""
        plain = np.broadcast_to(np.arange(LEVELS) / STEPS, (len(self.prices.core), LEVELS))
        known = {name: at * LEVELS for at, name in enumerate(self.prices.classes)}
        parts = [
            self.prices.worth[:, known[name] : known[name] + LEVELS] if name in known else plain
            for name in self._remainders.classes
        ]
        by_price = _grained(np.concatenate([*parts, np.zeros((len(self.prices.core), 1))], axis=1))
        self._worth = np.ascontiguousarray(by_price.T)
        self._losses.clear()

    def _loss(self, request: Request) -> Floats:
        """float64[keys, k]: the loss of a device of each key when it serves the request, with its part of the host.

        For a request without devices, float64[k]: the loss of the host.
        """
        cost = self._core * request.cpu_milli + self._gib * request.host_memory_mib
        if not request.devices:
            return cost
        after = np.arange(len(self._worth))
        for name, at in self._remainders.classes.items():
            steps = np.arange(LEVELS) - steps_taken(request, name)
            after[at * LEVELS : (at + 1) * LEVELS] = at * LEVELS + np.maximum(steps, 0)
        return np.asarray(self._worth - self._worth[after] + cost / request.devices, dtype=np.float64)


def _grained(numbers: Floats) -> Floats:
    return np.asarray(np.rint(numbers / GRAIN) * GRAIN, dtype=np.float64)


def steps_taken(request: Request, device: DeviceClass) -> int:
    """The steps of a device of this class that the request takes: by share or memory, the larger, rounded up."""
    model, memory_mib, compute, vendor = device
    slot = Slot(model, memory_mib, compute, MILLI_PER_DEVICE, memory_mib, vendor=vendor)
    grant_mib = grant_memory_mib(request, slot) or 0
    milli = share_milli_of(request, slot)
    if memory_mib:
        milli = max(milli, -(-grant_mib * MILLI_PER_DEVICE // memory_mib))
    return min(-(-milli // STEP_MILLI), STEPS)
