"""Free capacity in arrays: a row for each node, in the order that breaks ties, and a column for each amount.

The amounts that placements change (CPU, memory, milli-GPU and MiB of each slot) are in arrays. The slots of a node are
side by side, because most reads are of a few nodes among very many. The rest of a node's state is its *kind*. Equal
kinds share an index: whether a request suits a kind is computed once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Fit, fit, grant_memory_mib, preference
from corral.core.model.placing.state import NodeState, Slot, with_amounts
from corral.core.model.units import MILLI_PER_DEVICE

Rows = NDArray[np.intp]
Amounts = NDArray[np.int64]

CPU, MEMORY = 0, 1
"""Rows of `Columns.free_host` and `Columns.host`."""

NO_SLOT = -1
"""The free milli-GPU of a slot that a node does not have."""

_BOUNDLESS = 1 << 50


PART = 512
"""The most rows that one array operation processes. It bounds the memory of an operation on any fleet."""


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """The input of the columns for a node: its name, the UUIDs of its slots in order, and its state.

    `layout` comes from `placing.topology.layout`; None if no set of slots is better than another.
    `host` is the total CPU (milli) and memory (MiB) of the node; None if all of it is free.
    """

    name: str
    uuids: tuple[str, ...]
    state: NodeState
    layout: tuple[tuple[int, ...], ...] | None = None
    host: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RowGrant:
    """The amounts that one member takes from a row: slots, milli-GPU and MiB of each slot, and CPU and memory."""

    row: int
    slots: tuple[int, ...]
    share_milli: int
    grants_mib: tuple[int, ...]
    cpu_milli: int
    memory_mib: int


@dataclass(slots=True)
class RowChanges:
    """Rows in the order in which they changed. A reader remembers its position and asks for later changes."""

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
        """The rows that changed after the position, with possible duplicates; None if they are no longer kept.

        The result is valid until the next change.
        """
        if self._end - place > self.limit or place < self._start:
            return None
        return self._rows[place - self._start : self._end - self._start]


def in_parts(rows: Rows) -> Iterator[Rows]:
    """The rows in parts of at most PART rows; no part if there are no rows."""
    return (rows[start : start + PART] for start in range(0, len(rows), PART))


class Columns:
    """Free capacity of every node. `take` and `give` change it, `put` replaces it, `rollback` undoes up to a `mark`.

    Attributes:
        names, uuids, layouts: one entry for each row; `laid_out` says whether any row has a layout.
        rows: the row of each name.
        free_host: int64[2, rows], free CPU and MEMORY of each node.
        free_milli: int64[rows, slots], free milli-GPU; NO_SLOT if there is no slot.
        members_left: int64[rows], the members that each node can still take; None while no node has a bound.
        host: int64[2, rows], total CPU and MEMORY of each node.
        free_mib: int64[rows, slots]; 0 if a slot's memory is not known (its kind says whether it is).
        kind: intp[rows], an index into `kinds`.
        kinds: node states with everything free, one for each kind of node.
        changed_rows: rows in the order in which they changed.
    """

    def __init__(self, nodes: Sequence[NodeCapacity]) -> None:
        width = max((len(node.state.slots) for node in nodes), default=0)
        self.names = tuple(node.name for node in nodes)
        self.uuids = tuple(node.uuids for node in nodes)
        self.layouts = tuple(node.layout for node in nodes)
        self.laid_out = any(node.layout is not None for node in nodes)
        self.rows = {name: row for row, name in enumerate(self.names)}
        self.width = width
        self.free_host: Amounts = np.zeros((2, len(nodes)), dtype=np.int64)
        self.free_milli: Amounts = np.full((len(nodes), width), NO_SLOT, dtype=np.int64)
        self.members_left: Amounts | None = None
        self.host: Amounts = (
            np.array([node.host or (node.state.cpu_milli, node.state.memory_mib) for node in nodes], dtype=np.int64)
            .reshape(-1, 2)[:, [CPU, MEMORY]]
            .T
        )
        self.free_mib: Amounts = np.zeros((len(nodes), width), dtype=np.int64)
        self.kind: Rows = np.zeros(len(nodes), dtype=np.intp)
        self.kinds: list[NodeState] = []
        self.changed_rows = RowChanges(max(1024, 4 * len(nodes)))
        self._kind_of: dict[NodeState, int] = {}
        self._each_slot: Amounts = np.ones(width, dtype=np.int64)
        self._undo: list[tuple[int, int, Amounts, Amounts, Amounts]] = []
        self._marks = 0
        for row, node in enumerate(nodes):
            self._write(row, node.state)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def crowded(self) -> bool:
        """Whether most of `kinds` are no longer in use. Then it is better to build the columns anew."""
        return len(self.kinds) > 4 * len(self.names) + 64

    def put(self, name: str, state: NodeState) -> None:
        """Set the free state of a node. It must not have more slots than when the columns were built."""
        row = self.rows[name]
        self._write(row, state)
        self.changed_rows.add(row)

    def state(self, row: int) -> NodeState:
        """The state of a node, as in `core.model.placing.state.node_state`, but with a disk of 0."""
        kind = self.kinds[int(self.kind[row])]
        cpu_milli, memory_mib = self.free_host[:, row].tolist()
        free_milli: list[int] = self.free_milli[row].tolist()
        free_mib: list[int] = self.free_mib[row].tolist()
        slots = tuple(
            slot._replace(free_milli=free_milli[i], free_mib=None if slot.free_mib is None else free_mib[i])
            for i, slot in enumerate(kind.slots)
        )
        return with_amounts(kind, slots, (cpu_milli, memory_mib, 0, self.members_left_on(row)))

    def over_slots(self, values: NDArray[np.bool_] | Amounts) -> Amounts:
        """int64[n]: the sum of each row of values[n, slots], in half the time of `sum`, which is slow on short rows."""
        total: Amounts = values.dot(self._each_slot)
        return total

    def members_left_on(self, row: int) -> int | None:
        """The members that a node can still take; None means any number."""
        if self.members_left is None or self.kinds[int(self.kind[row])].members_left is None:
            return None
        return int(self.members_left[row])

    def take(self, taking: RowGrant) -> None:
        """Subtract a grant. The caller has checked that it fits: nothing becomes negative."""
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
            row, sign, host, free_milli, free_mib = self._undo.pop()
            if self.members_left is not None:
                self.members_left[row] -= sign
            self.free_host[:, row] = host
            self.free_milli[row] = free_milli
            self.free_mib[row] = free_mib
            self.changed_rows.add(row)
        self._marks -= 1

    def _change(self, taking: RowGrant, sign: int) -> None:
        row, host, free_milli = taking.row, self.free_host, self.free_milli
        if self._marks:
            before = host[:, row].copy(), free_milli[row].copy(), self.free_mib[row].copy()
            self._undo.append((row, sign, *before))
        host[CPU, row] += sign * taking.cpu_milli
        host[MEMORY, row] += sign * taking.memory_mib
        if self.members_left is not None:
            self.members_left[row] += sign
        for slot, mib in zip(taking.slots, taking.grants_mib, strict=True):
            free_milli[row, slot] += sign * taking.share_milli
            if mib:
                self.free_mib[row, slot] += sign * mib
        self.changed_rows.add(row)

    def _write(self, row: int, state: NodeState) -> None:
        self.kind[row] = self._kind(state)
        missing = self.width - len(state.slots)
        if self.members_left is None and state.members_left is not None:
            self.members_left = np.full(len(self), _BOUNDLESS, dtype=np.int64)
        if self.members_left is not None:
            self.members_left[row] = _BOUNDLESS if state.members_left is None else state.members_left
        self.free_host[:, row] = state.cpu_milli, state.memory_mib
        self.free_milli[row] = [slot.free_milli for slot in state.slots] + [NO_SLOT] * missing
        self.free_mib[row] = [slot.free_mib or 0 for slot in state.slots] + [0] * missing

    def _kind(self, state: NodeState) -> int:
        slots = tuple(map(_emptied, state.slots))
        members_left = None if state.members_left is None else _BOUNDLESS
        kind = with_amounts(state, slots, (_BOUNDLESS, _BOUNDLESS, 0, members_left))
        index = self._kind_of.get(kind)
        if index is None:
            index = self._kind_of[kind] = len(self.kinds)
            self.kinds.append(kind)
        return index


@lru_cache(maxsize=16_384)
def _emptied(slot: Slot) -> Slot:
    return slot._replace(free_milli=slot.open_milli, free_mib=None if slot.free_mib is None else _BOUNDLESS)


def columnar(request: Request) -> bool:
    """Whether the columns can find out where the request fits.

    They cannot if it names or avoids devices, or names nodes, must be split over several devices, shares with its like
    alone, or gets a share that depends on a device's memory. They cannot either if it asks for disk, or has rules on
    what else runs on the node.
    """
    unsplit = (request.split_milli or 0) <= MILLI_PER_DEVICE
    named = request.tells_devices_apart or request.tells_nodes_apart
    ruled = request.rules is not None and (request.rules.by_name or request.rules.by_neighbours)
    by_device = request.share_of_memory or request.pack is not None
    return unsplit and not named and not by_device and not request.disk_mib and not ruled


def member_of(request: Request) -> Request:
    """One member of a columnar request, with only the fields that decide its fit on a node; never split."""
    return replace(request, gang_size=1, one_node=False, spread=False, avoid_jobs=(), cores_percent=None)


class Shape:
    """One member of a request, prepared for the columns: its needs, and its grants on each kind of node.

    Attributes:
        request: the request with one member.
        known: the number of kinds that have been examined so far.
        able: bool[kinds, slots], the slots that could serve it on an empty node of that kind.
        grants_mib: int64[kinds, slots], the MiB of each slot's memory that it would be granted.
        preferred: int64[kinds], its preference for nodes of that kind; `prefers` says whether any differs from 0.
    """

    def __init__(self, request: Request, columns: Columns) -> None:
        assert columnar(request), "only a columnar request has a shape"
        self.request = request
        self.known = 0
        self.able = np.zeros((0, columns.width), dtype=np.bool_)
        self.grants_mib: Amounts = np.zeros((0, columns.width), dtype=np.int64)
        self.preferred: Amounts = np.zeros(0, dtype=np.int64)
        self.prefers = False
        self._hosts = np.zeros(0, dtype=np.bool_)
        self._any_kind = True
        self._any_memory = True

    def serving(self, columns: Columns, rows: Rows) -> Rows:
        """The rows whose hosts can serve a member, whatever their slots.

        A member fits on those of these rows that have enough `able_slots`. The result agrees with `placing.fit.fit`
        on a row's state, with no devices named and no share split.
        """
        if self.known < len(columns.kinds):
            self._learn(columns)
        hosts: NDArray[np.bool_] = columns.free_host[CPU].take(rows) >= self.request.cpu_milli
        hosts &= columns.free_host[MEMORY].take(rows) >= self.request.host_memory_mib
        if columns.members_left is not None:
            hosts &= columns.members_left.take(rows) > 0
        if not self._any_kind:
            hosts &= self._hosts.take(columns.kind.take(rows))
        return rows.compress(hosts)

    def able_slots_on(self, columns: Columns, row: int) -> list[int]:
        """The slots of one row that can serve a member now, if its host can; the same as `able_slots`."""
        share_milli = self.request.share_milli
        free_milli: list[int] = columns.free_milli[row].tolist()
        slots = [slot for slot, milli in enumerate(free_milli) if milli >= share_milli]
        if self._any_kind and not self._any_memory:
            return slots
        able = self.able_slots(columns, np.array([row], dtype=np.intp))[0]
        return [slot for slot in slots if able[slot]]

    def able_slots(self, columns: Columns, rows: Rows) -> NDArray[np.bool_]:
        """bool[n, slots]: the slots of each row that can serve a member now, if its host can."""
        if self.known < len(columns.kinds):
            self._learn(columns)
        slots: NDArray[np.bool_] = columns.free_milli.take(rows, axis=0) >= self.request.share_milli
        if not self._any_kind or self._any_memory:
            kinds = columns.kind.take(rows)
            slots &= self.able.take(kinds, axis=0)
            if self._any_memory:
                slots &= columns.free_mib.take(rows, axis=0) >= self.grants_mib.take(kinds, axis=0)
        return slots

    def taking(self, columns: Columns, row: int, slots: tuple[int, ...]) -> RowGrant:
        """The amounts that a member takes from a row if it gets these slots."""
        if self.known < len(columns.kinds):
            self._learn(columns)
        kind = int(columns.kind[row])
        grants = tuple(int(self.grants_mib[kind, slot]) for slot in slots) if self._any_memory else (0,) * len(slots)
        request = self.request
        return RowGrant(row, slots, request.share_milli, grants, request.cpu_milli, request.host_memory_mib)

    def _learn(self, columns: Columns) -> None:
        new = columns.kinds[self.known :]
        able = np.zeros((len(new), columns.width), dtype=np.bool_)
        grants = np.zeros((len(new), columns.width), dtype=np.int64)
        hosts = np.zeros(len(new), dtype=np.bool_)
        for at, kind in enumerate(new):
            answer = fit(self.request, kind)
            if isinstance(answer, Fit) and not answer.parts_milli:
                hosts[at] = True
                able[at, list(answer.slots)] = True
            for i, slot in enumerate(kind.slots):
                grants[at, i] = grant_memory_mib(self.request, slot) or 0
        self.able = np.concatenate([self.able, able])
        self.grants_mib = np.concatenate([self.grants_mib, grants])
        self._hosts = np.concatenate([self._hosts, hosts])
        self.preferred = np.concatenate([self.preferred, [preference(self.request, kind) for kind in new]])
        self.prefers = bool(self.preferred.any())
        self.known = len(columns.kinds)
        self._any_kind = all(self._serves_everywhere(columns))
        self._any_memory = bool(self.grants_mib.any())

    def _serves_everywhere(self, columns: Columns) -> Iterator[bool]:
        for at, kind in enumerate(columns.kinds):
            yield bool(self._hosts[at]) and int(self.able[at].sum()) == len(kind.slots)
