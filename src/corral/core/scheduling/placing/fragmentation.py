"""Fragmentation gradient descent (FGD): place where the least GPU capacity becomes unusable for the expected requests.

F(n) is the GPU capacity free on node n that a request drawn from the expected mix could not use. F and the score
int(100 x sigmoid((F before - F after) / 1000)) are from Weng et al., "Beware of Fragmentation", USENIX ATC'23.
Rounding to an integer makes near equals equal: earlier nodes then fill first. The results of the method depend on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import could_use
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.scores import Floats, Granularity, PlacementOptions
from corral.core.scheduling.state.columns import CPU, Amounts, Columns, Rows, in_parts

CHANGES_KEPT = 256

_COUNT = 1 << 32
"""A device that can serve a request adds this much; any other adds its free milli-GPU. One sum encodes both."""


@dataclass(frozen=True, slots=True)
class _Sort:
    """Request classes with the same share, device count and suitable kinds of node; they differ only in CPU."""

    share: int
    devices: int
    kinds: tuple[bool, ...]


class Fragmentation:
    """The FGD score for a mix of requests, each with its number of arrivals.

    Counts are integers: F then does not depend on the order of summation. A placement that changes nothing must
    score exactly one half.
    """

    granularity = Granularity.SHARES

    def __init__(self, columns: Columns, mix: Sequence[tuple[Request, int]]) -> None:
        self.version = 0
        self._columns = columns
        self.expect(mix)

    def expect(self, mix: Sequence[tuple[Request, int]]) -> None:
        """Use this mix from now on."""
        self.version += 1
        self._mix = tuple(mix)
        self._scale = max(1, sum(count for _, count in mix)) * MILLI_PER_DEVICE
        self._known = 0
        self._place = -1

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        self._renew()
        rows, request = options.rows, options.shape.request
        useless = self._useless.take(rows, axis=0)
        for slots in options.slots:
            free = columns.free_milli[rows, slots]
            useless += self._change(request.share_milli).take(free, axis=0)
        total = self._total.take(rows) - len(options.slots) * request.share_milli
        after = self._fragmentation(
            columns, rows, columns.free_host[CPU].take(rows) - request.cpu_milli, useless, total
        )
        return np.trunc(100.0 / (1.0 + np.exp((after - self._before.take(rows)) / self._scale)))

    def fragmentation_milli(self) -> float:
        """The sum of F over all nodes, in milli-GPU."""
        self._renew()
        return float(self._before.sum()) * MILLI_PER_DEVICE / self._scale

    def _renew(self) -> None:
        columns = self._columns
        if self._known < len(columns.kinds):
            self._learn()
        rows = columns.changed_rows.since(self._place)
        if rows is None:
            rows = np.arange(len(columns), dtype=np.intp)
        self._place = columns.changed_rows.place
        for some in in_parts(rows):
            free = np.maximum(columns.free_milli.take(some, axis=0), 0)
            useless = self._contribution.take(free, axis=0).sum(axis=1)
            total = columns.over_slots(free)
            self._useless[some] = useless
            self._total[some] = total
            self._before[some] = self._fragmentation(columns, some, columns.free_host[CPU].take(some), useless, total)

    def _change(self, share: int) -> Amounts:
        """int64[free milli-GPU, sorts]: the change in a device's contribution when it gives this share."""
        change = self._changes.get(share)
        if change is None:
            if len(self._changes) >= CHANGES_KEPT:
                self._changes.clear()
            change = np.zeros_like(self._contribution)
            change[share:] = self._contribution[: len(change) - share] - self._contribution[share:]
            self._changes[share] = change
        return change

    def _fragmentation(self, columns: Columns, rows: Rows, cpu: Amounts, useless: Amounts, total: Amounts) -> Amounts:
        """F times the mix's count, for rows with this CPU, these sums by share (see `_COUNT`) and total milli-GPU."""
        usable = (useless >= self._least) * self._counts.take(self._cpus.searchsorted(cpu, side="right"), axis=0)
        if not self._everywhere:
            usable *= self._served.take(columns.kind.take(rows), axis=0)
        usable *= total[:, None] - (useless & (_COUNT - 1))
        whole = self._scale // MILLI_PER_DEVICE
        return np.asarray(whole * total - usable.sum(axis=1), dtype=np.int64)

    def _learn(self) -> None:
        columns = self._columns
        sorts: dict[_Sort, list[tuple[int, int]]] = {}
        for request, count in self._mix:
            if request.devices:
                kinds = tuple(any(could_use(request, slot) for slot in kind.slots) for kind in columns.kinds)
                sorts.setdefault(_Sort(request.share_milli, request.devices, kinds), []).append(
                    (request.cpu_milli, count)
                )
        self._cpus = np.array(sorted({cpu for members in sorts.values() for cpu, _ in members}), dtype=np.int64)
        self._counts = np.zeros((len(self._cpus) + 1, len(sorts)), dtype=np.int64)
        for at, members in enumerate(sorts.values()):
            for cpu, count in members:
                self._counts[np.searchsorted(self._cpus, cpu) + 1 :, at] += count
        free = np.arange(MILLI_PER_DEVICE + 1)[:, None]
        shares = np.array([sort.share for sort in sorts], dtype=np.int64)
        self._changes: dict[int, Amounts] = {}
        self._contribution = np.where(free >= shares, _COUNT, free)
        self._least = np.array([sort.devices * _COUNT for sort in sorts], dtype=np.int64)
        served = np.array([sort.kinds for sort in sorts], dtype=np.int64).reshape(len(sorts), len(columns.kinds))
        self._served = np.ascontiguousarray(served.T)
        self._everywhere = bool(self._served.all())
        self._useless = np.zeros((len(columns), len(sorts)), dtype=np.int64)
        self._total = np.zeros(len(columns), dtype=np.int64)
        self._before = np.zeros(len(columns), dtype=np.int64)
        self._known = len(columns.kinds)
        self._place = -1
