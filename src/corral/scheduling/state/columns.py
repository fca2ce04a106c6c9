"""Free capacity in arrays: a row for each node, in the order in which ties are broken, a column for each amount.

The amounts that placements change (CPU, memory, milli-GPU and MiB of each slot) are in arrays. The rest of a node's
state is its *kind*. Equal kinds share an index, so that whether a request suits a kind is computed once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corral.model.fit import Fit, NodeState, Slot, fit, grant_memory_mib, labels_preferred
from corral.model.job import Request
from corral.model.units import MILLI_PER_DEVICE

Rows = NDArray[np.intp]
Amounts = NDArray[np.int64]

CPU, MEMORY, SLOTS = 0, 1, 2
"""Columns of `Columns.amounts`: free CPU, free host memory, and from SLOTS on the free milli-GPU of each slot."""

NO_SLOT = -1
"""Free milli-GPU where a node has no such slot."""

_BOUNDLESS = 1 << 50


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """What the columns need of a node: its name, the UUIDs of its slots in order, and its state.

    `layout` is that of `corral.scheduling.placing.topology.layout`; None where no set of slots is better than another.
    `host` is the total CPU (milli) and memory (MiB) of the node; None where all of it is free.
    """

    name: str
    uuids: tuple[str, ...]
    state: NodeState
    layout: tuple[tuple[int, ...], ...] | None = None
    host: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RowGrant:
    """What one member takes from one row: slots, milli-GPU of each slot, MiB of each slot, and CPU and memory."""

    row: int
    slots: tuple[int, ...]
    share_milli: int
    grants_mib: tuple[int, ...]
    cpu_milli: int
    memory_mib: int


@dataclass(slots=True)
class RowChanges:
    """Rows in the order in which they changed. A reader remembers its position and asks what came after it."""

    limit: int
    _rows: Rows = field(init=False)
    _start: int = 0
    _end: int = 0

    def __post_init__(self) -> None:
        self._rows = np.zeros(2 * self.limit, dtype=np.intp)

    @property
    def place(self) -> int:
        """The position after the newest change."""
        return self._end

    def add(self, row: int) -> None:
        used = self._end - self._start
        if used == len(self._rows):
            self._rows[: self.limit] = self._rows[self.limit :]
            self._start += self.limit
            used = self.limit
        self._rows[used] = row
        self._end += 1

    def since(self, place: int) -> Rows | None:
        """Rows changed after the position, some perhaps more than once; None if those are no longer kept."""
        if self._end - place > self.limit or place < self._start:
            return None
        return self._rows[place - self._start : self._end - self._start].copy()


class Columns:
    """Free capacity of every node. `take` and `give` change it, `put` replaces it, `rollback` undoes up to a `mark`.

    Attributes:
        names, uuids, layouts: one entry a row; `laid_out` says whether any row has a layout.
        rows: the row of each name.
        amounts: int64[2 + slots, rows], see CPU, MEMORY and SLOTS.
        host: int64[2, rows], total CPU and MEMORY of each node.
        free_mib: int64[slots, rows]; 0 where a slot's memory is not known (its kind says so).
        kind: int32[rows], an index into `kinds`.
        kinds: node states with everything free, one for each kind of node.
        touched: rows in the order they changed.
    """

    def __init__(self, nodes: Sequence[NodeCapacity]) -> None:
        width = max((len(node.state.slots) for node in nodes), default=0)
        self.names = tuple(node.name for node in nodes)
        self.uuids = tuple(node.uuids for node in nodes)
        self.layouts = tuple(node.layout for node in nodes)
        self.laid_out = any(node.layout is not None for node in nodes)
        self.rows = {name: row for row, name in enumerate(self.names)}
        self.width = width
        self.amounts: Amounts = np.full((SLOTS + width, len(nodes)), NO_SLOT, dtype=np.int64)
        self.host: Amounts = (
            np.array([node.host or (node.state.cpu_milli, node.state.memory_mib) for node in nodes], dtype=np.int64)
            .reshape(-1, 2)[:, [CPU, MEMORY]]
            .T
        )
        self.free_mib: Amounts = np.zeros((width, len(nodes)), dtype=np.int64)
        self.kind: NDArray[np.int32] = np.zeros(len(nodes), dtype=np.int32)
        self.kinds: list[NodeState] = []
        self.changed_rows = RowChanges(max(1024, 4 * len(nodes)))
        self._kind_of: dict[NodeState, int] = {}
        self._undo: list[tuple[int, Amounts, Amounts]] = []
        self._marks = 0
        for row, node in enumerate(nodes):
            self._write(row, node.state)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def free_milli(self) -> Amounts:
        """int64[slots, rows]: free milli-GPU, NO_SLOT where there is no slot."""
        return self.amounts[SLOTS:]

    @property
    def crowded(self) -> bool:
        """Whether most of `kinds` are no longer in use, so that it is better to build the columns anew."""
        return len(self.kinds) > 4 * len(self.names) + 64

    def put(self, name: str, state: NodeState) -> None:
        """Set what is free on a node. It must not have more slots than when the columns were built."""
        row = self.rows[name]
        self._write(row, state)
        self.changed_rows.add(row)

    def state(self, row: int) -> NodeState:
        """The state of a node, equal to `corral.model.fit.node_state`; but the disk, which is not kept here, is 0."""
        kind = self.kinds[int(self.kind[row])]
        amounts: list[int] = self.amounts[:, row].tolist()
        free_mib: list[int] = self.free_mib[:, row].tolist()
        slots = tuple(
            slot._replace(free_milli=amounts[SLOTS + i], free_mib=None if slot.free_mib is None else free_mib[i])
            for i, slot in enumerate(kind.slots)
        )
        return kind._replace(slots=slots, cpu_milli=amounts[CPU], memory_mib=amounts[MEMORY])

    def take(self, taking: RowGrant) -> None:
        """Take a grant off. The caller has checked that it fits, so that nothing becomes negative."""
        self._change(taking, -1)

    def give(self, taking: RowGrant) -> None:
        """Undo a `take`."""
        self._change(taking, 1)

    def mark(self) -> int:
        """A point to roll back to. Each mark needs one `rollback`, the newest first."""
        self._marks += 1
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Undo every `take` and `give` since the mark."""
        while len(self._undo) > mark:
            row, amounts, free_mib = self._undo.pop()
            self.amounts[:, row] = amounts
            self.free_mib[:, row] = free_mib
            self.changed_rows.add(row)
        self._marks -= 1

    def _change(self, taking: RowGrant, sign: int) -> None:
        row, amounts = taking.row, self.amounts
        if self._marks:
            self._undo.append((row, amounts[:, row].copy(), self.free_mib[:, row].copy()))
        amounts[CPU, row] += sign * taking.cpu_milli
        amounts[MEMORY, row] += sign * taking.memory_mib
        for slot, mib in zip(taking.slots, taking.grants_mib, strict=True):
            amounts[SLOTS + slot, row] += sign * taking.share_milli
            if mib:
                self.free_mib[slot, row] += sign * mib
        self.changed_rows.add(row)

    def _write(self, row: int, state: NodeState) -> None:
        self.kind[row] = self._kind(state)
        missing = self.width - len(state.slots)
        amounts = [state.cpu_milli, state.memory_mib, *(slot.free_milli for slot in state.slots)]
        self.amounts[:, row] = amounts + [NO_SLOT] * missing
        self.free_mib[:, row] = [slot.free_mib or 0 for slot in state.slots] + [0] * missing

    def _kind(self, state: NodeState) -> int:
        slots = tuple(_emptied(slot) for slot in state.slots)
        kind = NodeState(slots, _BOUNDLESS, _BOUNDLESS, state.labels, state.driver, state.cuda, state.status)
        index = self._kind_of.get(kind)
        if index is None:
            index = self._kind_of[kind] = len(self.kinds)
            self.kinds.append(kind)
        return index


@lru_cache(maxsize=16_384)
def _emptied(slot: Slot) -> Slot:
    return slot._replace(free_milli=MILLI_PER_DEVICE, free_mib=None if slot.free_mib is None else _BOUNDLESS)


def columnar(request: Request) -> bool:
    """Whether the columns can tell where the request fits.

    They cannot where it names devices or a node, must be split over several devices, gets a share that depends on a
    device's memory, or asks for disk.
    """
    unsplit = (request.split_milli or 0) <= MILLI_PER_DEVICE
    named = bool(request.device_uuids) or request.node is not None
    return unsplit and not named and not request.share_of_memory and not request.disk_mib


def member_of(request: Request) -> Request:
    """One member of a columnar request, with only the fields that its fit on a node depends on; never split."""
    return replace(request, gang_size=1, one_node=False, spread=False, avoid_jobs=(), cores_percent=None)


class Shape:
    """One member of a request, prepared for the columns: what it needs, and what it gets on each kind of node.

    Attributes:
        request: the request with one member.
        least: int64[2 + slots, 1], the amount needed in each column.
        known: how many kinds have been looked at so far.
        able: bool[slots, kinds], the slots that could serve it on an empty node of that kind.
        grants_mib: int64[slots, kinds], what it would be granted of each slot's memory.
        preferred: int64[kinds], how many of the labels that it prefers a node of that kind carries.
    """

    def __init__(self, request: Request, columns: Columns) -> None:
        assert columnar(request), "only a columnar request has a shape"
        self.request = request
        self.least: Amounts = np.full((SLOTS + columns.width, 1), request.share_milli, dtype=np.int64)
        self.least[CPU], self.least[MEMORY] = request.cpu_milli, request.host_memory_mib
        self.known = 0
        self.able = np.zeros((columns.width, 0), dtype=np.bool_)
        self.grants_mib: Amounts = np.zeros((columns.width, 0), dtype=np.int64)
        self.preferred: Amounts = np.zeros(0, dtype=np.int64)
        self._hosts = np.zeros(0, dtype=np.bool_)
        self._any_kind = True
        self._any_memory = True

    def fits(self, columns: Columns, rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(bool[slots, n], bool[n]): the slots of each row that can serve now, and whether the row can serve a member.

        Equal to `corral.model.fit.fit` on each row's state, with no devices named and no share split.
        """
        if self.known < len(columns.kinds):
            self._learn(columns)
        enough = columns.amounts.take(rows, axis=1) >= self.least
        slots = enough[SLOTS:]
        hosts: NDArray[np.bool_] = enough[CPU] & enough[MEMORY]
        if not self._any_kind or self._any_memory:
            kinds = columns.kind.take(rows)
            if not self._any_kind:
                slots &= self.able.take(kinds, axis=1)
                hosts &= self._hosts[kinds]
            if self._any_memory:
                slots &= columns.free_mib[:, rows] >= self.grants_mib[:, kinds]
        slots &= hosts
        if self.request.devices:
            hosts = np.count_nonzero(slots, axis=0) >= self.request.devices
        return slots, hosts

    def taking(self, columns: Columns, row: int, slots: tuple[int, ...]) -> RowGrant:
        """What a member takes from a row if it gets these slots."""
        if self.known < len(columns.kinds):
            self._learn(columns)
        kind = int(columns.kind[row])
        grants = tuple(int(self.grants_mib[slot, kind]) for slot in slots) if self._any_memory else (0,) * len(slots)
        request = self.request
        return RowGrant(row, slots, request.share_milli, grants, request.cpu_milli, request.host_memory_mib)

    def _learn(self, columns: Columns) -> None:
        new = columns.kinds[self.known :]
        able = np.zeros((columns.width, len(new)), dtype=np.bool_)
        grants = np.zeros((columns.width, len(new)), dtype=np.int64)
        hosts = np.zeros(len(new), dtype=np.bool_)
        for at, kind in enumerate(new):
            answer = fit(self.request, kind)
            if isinstance(answer, Fit) and not answer.parts_milli:
                hosts[at] = True
                able[list(answer.slots), at] = True
            for i, slot in enumerate(kind.slots):
                grants[i, at] = grant_memory_mib(self.request, slot) or 0
        self.able = np.concatenate([self.able, able], axis=1)
        self.grants_mib = np.concatenate([self.grants_mib, grants], axis=1)
        self._hosts = np.concatenate([self._hosts, hosts])
        self.preferred = np.concatenate([self.preferred, [labels_preferred(self.request, kind) for kind in new]])
        self.known = len(columns.kinds)
        self._any_kind = all(self._serves_everywhere(columns))
        self._any_memory = bool(self.grants_mib.any())

    def _serves_everywhere(self, columns: Columns) -> Iterator[bool]:
        for at, kind in enumerate(columns.kinds):
            yield bool(self._hosts[at]) and int(self.able[:, at].sum()) == len(kind.slots)
