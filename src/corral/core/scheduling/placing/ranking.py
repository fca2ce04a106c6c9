"""Ranks nodes by a score: the best score of every row, cached by request and computed anew only for changed rows.

The best row is found by bounds: rows are in blocks, and no row of a block scores more than its bound. A better score
raises the bound. A bound that is too high is lowered only when the search reaches its block.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Cause, Fit, Misfit, fit
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.closeness import best_set, least_cut
from corral.core.scheduling.placing.node_by_node import nearest_misfit
from corral.core.scheduling.placing.scores import DeviceScorer, Floats, Granularity, PlacementOptions, Score, each_of
from corral.core.scheduling.state.columns import Columns, RowGrant, Rows, Shape, in_parts, member_of

SHAPES_KEPT = 512
"""The most requests whose rankings are cached; the least recently used one is dropped first."""

MISFITS_KEPT = 16_384
"""The most misfits that are cached. A request that does not fit now often does not fit next time."""

PREFERENCE = 1e6
"""The amount that a preferred label adds to a score: more than scores can differ otherwise."""

BLOCK_BITS = 7
"""Blocks of 128 rows. The search looks at few bounds and few rows, with a hundred nodes as well as a million."""

_RowKey = tuple[int, int, int | None, bytes, bytes, bytes]
"""A row, its kind, the members that it can still take, and the amounts that are free on it."""


@dataclass(slots=True)
class _Ranking:
    """The best score of every row for one request, -inf if it does not fit, and a bound for each block of rows."""

    shape: Shape
    scores: Floats
    bounds: Floats = field(init=False)
    place: int = -1
    version: int = -1

    def __post_init__(self) -> None:
        self.bounds = np.full(-(-len(self.scores) >> BLOCK_BITS), -np.inf)

    def forget(self) -> None:
        """Clear the scores of all rows."""
        self.scores.fill(-np.inf)
        self.bounds.fill(-np.inf)

    def note(self, rows: Rows, scores: Floats) -> None:
        """Set the scores of rows without a score. If a row appears several times, its best score counts."""
        np.maximum.at(self.scores, rows, scores)
        np.maximum.at(self.bounds, rows >> BLOCK_BITS, scores)

    def best_row(self) -> int | None:
        """The row with the best score, among equals the first; None if no row has a score."""
        bounds = self.bounds
        while len(bounds):
            block = int(bounds.argmax())
            first = block << BLOCK_BITS
            among = self.scores[first : first + (1 << BLOCK_BITS)]
            at = int(among.argmax())
            score = among[at]
            if score == -np.inf == bounds[block]:
                return None
            if score == bounds[block]:
                return first + at
            bounds[block] = score
        return None


@dataclass(slots=True)
class Placer:
    """Finds the best placement of columnar requests by a score. Among equal scores, the earlier row and lower slot win.

    A share that may be split takes the last of equal slots instead.
    """

    columns: Columns
    score: Score
    _rankings: dict[Request, _Ranking] = field(default_factory=dict)
    _misfits: dict[Request, dict[_RowKey, Misfit]] = field(default_factory=dict)
    _misfits_kept: int = 0
    _each: DeviceScorer | None = field(init=False)

    def __post_init__(self) -> None:
        self._each = each_of(self.score)

    @property
    def ranks_devices(self) -> bool:
        """Whether the score compares the devices of a node."""
        return self._each is not None

    def scores(self, request: Request) -> Floats:
        """float64[rows]: the best score of every row for one member, -inf if it does not fit. Do not modify it."""
        return self._ranking(request).scores

    def best(self, request: Request, *, excluded: Collection[int] = ()) -> RowGrant | None:
        """The best placement of one member outside the excluded rows; None if it fits nowhere."""
        ranking = self._ranking(request)
        if not excluded:
            row = ranking.best_row()
            return None if row is None else self._grant(ranking, row)
        scores = ranking.scores.copy()
        scores[list(excluded)] = -np.inf
        row = int(scores.argmax())
        return None if scores[row] == -np.inf else self._grant(ranking, row)

    def on(self, request: Request, row: int) -> RowGrant | None:
        """The best placement of one member on this row; None if it does not fit there."""
        ranking = self._ranking(request)
        return None if ranking.scores[row] == -np.inf else self._grant(ranking, row)

    def ranked(self, request: Request) -> list[int]:
        """Every row on which one member fits, the best first."""
        scores = self.scores(request)
        fitting = np.flatnonzero(scores > -np.inf)
        return [int(row) for row in fitting[np.argsort(-scores[fitting], kind="stable")]]

    def best_of(self, request: Request, row: int, able: Sequence[int]) -> tuple[int, ...]:
        """The best slots for one member out of `able` on this row; among equals, those that come first in `able`."""
        columns = self.columns
        known = columns.layouts[row] if request.whole else None
        rows = np.full(len(able), row, dtype=np.intp)
        if request.devices == 1 and self._compares_devices(request):
            shape = self._ranking(request).shape
            scores = self.score(columns, PlacementOptions(shape, rows, np.array([able], dtype=np.intp)))
            best = [slot for slot, score in zip(able, scores, strict=True) if score == scores.max()]
            return (best[0] if known is None else least_cut(known, best, able),)
        able = self.in_order(row, able)
        if known is not None:
            return best_set(known, tuple(able), request.devices)
        free = columns.free_milli[row]
        if self._each is None:
            able = sorted(able, key=lambda slot: int(free[slot]))
        return tuple(able[: request.devices])

    def in_order(self, row: int, slots: Sequence[int]) -> list[int]:
        """The slots of the row, best device first if the score compares devices. Equals keep their order."""
        if self._each is None:
            return list(slots)
        among = np.asarray(slots, dtype=np.intp)
        scores = self._each(self.columns, np.full(len(slots), row, dtype=np.intp), among)
        return [slots[at] for at in np.argsort(-scores, kind="stable")]

    def place(self, request: Request) -> tuple[RowGrant, ...] | None:
        """A placement of every member, which sees what earlier members take; None if there is none.

        Leaves the columns unchanged.
        """
        if request.gang_size == 1:
            found = self.best(request)
            return None if found is None else (found,)
        if request.one_node:
            return self._on_one_node(request)
        mark = self.columns.mark()
        try:
            return self._gang(request)
        finally:
            self.columns.rollback(mark)

    def why_not(self, request: Request) -> Misfit:
        """The reason why a member fits nowhere after the members before it: the misfit of the nearest node."""
        mark = self.columns.mark()
        try:
            if request.gang_size > 1:
                self._gang(request)
            known = self._misfits.get(request, {})
            misfits = [self._misfit(request, row, known) for row in self._nearest_rows(request)]
        finally:
            self.columns.rollback(mark)
        return nearest_misfit(request, misfits)

    def _gang(self, request: Request) -> tuple[RowGrant, ...] | None:
        """Place the members in the columns one after another, as long as they fit. The caller rolls this back."""
        members: list[RowGrant] = []
        used: list[int] = []
        member = member_of(request)
        for _ in range(request.gang_size):
            found = self.best(member, excluded=used)
            if found is None:
                return None
            self.columns.take(found)
            members.append(found)
            if request.spread:
                used.append(found.row)
        return tuple(members)

    def _on_one_node(self, request: Request) -> tuple[RowGrant, ...] | None:
        """All members on one row: the one that scores best for the first member and can serve all."""
        for row in self.ranked(request):
            mark = self.columns.mark()
            members: list[RowGrant] = []
            while len(members) < request.gang_size and (found := self.on(request, row)) is not None:
                self.columns.take(found)
                members.append(found)
            self.columns.rollback(mark)
            if len(members) == request.gang_size:
                return tuple(members)
        return None

    def _ranking(self, request: Request) -> _Ranking:
        ranking = self._rankings.get(request)
        if ranking is None:
            member = member_of(request)
            if member != request:
                return self._ranking(member)
            if len(self._rankings) >= SHAPES_KEPT:
                del self._rankings[min(self._rankings, key=lambda key: self._rankings[key].place)]
            ranking = _Ranking(Shape(member, self.columns), np.full(len(self.columns), -np.inf))
            self._rankings[request] = ranking
        self._renew(ranking)
        return ranking

    def _renew(self, ranking: _Ranking) -> None:
        columns, version = self.columns, self.score.version
        rows = columns.changed_rows.since(ranking.place) if ranking.version == version else None
        ranking.place, ranking.version = columns.changed_rows.place, version
        if rows is None or len(rows) > len(columns):
            ranking.forget()
            rows = np.arange(len(columns), dtype=np.intp)
        else:
            ranking.scores[rows] = -np.inf
        for some in in_parts(rows):
            self._rank(ranking, some)

    def _rank(self, ranking: _Ranking, rows: Rows) -> None:
        """Set the scores of these rows, which have none yet."""
        columns, shape = self.columns, ranking.shape
        request = shape.request
        rows = shape.serving(columns, rows)
        able = shape.able_slots(columns, rows)
        if request.devices == 1 and self._compares_devices(request):
            at, which = able.nonzero()
            options = PlacementOptions(shape, rows.take(at), which[None])
        elif request.devices == 1 and request.whole and not columns.laid_out:
            at, which = _firsts(*able.nonzero())
            options = PlacementOptions(shape, rows.take(at), which[None])
        else:
            (at,) = (columns.over_slots(able) >= request.devices).nonzero()
            rows = rows.take(at)
            options = PlacementOptions(shape, rows, self._slot_sets(request, rows, able.take(at, axis=0)))
        if len(at):
            scores = self.score(columns, options)
            if shape.prefers:
                scores = scores + PREFERENCE * shape.preferred[columns.kind[options.rows]]
            ranking.note(options.rows, scores)

    def _compares_devices(self, request: Request) -> bool:
        """Whether the score differs between the devices of a node for this request."""
        return self.score.granularity > (Granularity.SHARES if request.whole else Granularity.NODES)

    def _slot_sets(self, request: Request, rows: Rows, able: NDArray[np.bool_]) -> Rows:
        """intp[devices, n]: the slots that a member would take of each row, out of `able` (bool[n, slots]).

        They are the slots with the least free, among equals the lower; if the score compares devices, the best by
        score. For whole devices on a row with a layout, they are the best connected set.
        """
        columns = self.columns
        if self._each is None or not request.devices or not len(rows):
            chosen = least_free(columns, request, rows, able)
        else:
            at, which = np.nonzero(able)
            table = np.full(able.shape, -np.inf)
            table[at, which] = self._each(columns, rows[at], which)
            ordered = np.argsort(-table, axis=1, kind="stable")
            chosen = np.ascontiguousarray(ordered[:, : request.devices].T, dtype=np.intp)
        if columns.laid_out and request.whole and request.devices:
            for column, row in enumerate(rows.tolist()):
                known = columns.layouts[row]
                if known is not None:
                    slots = self.in_order(row, np.flatnonzero(able[column]).tolist())
                    chosen[:, column] = best_set(known, tuple(slots), request.devices)
        return chosen

    def _grant(self, ranking: _Ranking, row: int) -> RowGrant:
        columns, shape, request = self.columns, ranking.shape, ranking.shape.request
        if not request.devices:
            return shape.taking(columns, row, ())
        able = shape.able_slots_on(columns, row)
        if len(able) == request.devices:
            return shape.taking(columns, row, tuple(able))
        if request.devices > 1 or not self._compares_devices(request):
            rows = np.array([row], dtype=np.intp)
            slots = self._slot_sets(request, rows, shape.able_slots(columns, rows))[:, 0].tolist()
            return shape.taking(columns, row, tuple(sorted(slots)))
        options = PlacementOptions(shape, np.full(len(able), row, dtype=np.intp), np.array([able], dtype=np.intp))
        scores = self.score(columns, options)
        best = _last_of_best(scores) if request.split_milli is not None else scores.argmax()
        return shape.taking(columns, row, (able[best],))

    def _nearest_rows(self, request: Request) -> list[int]:
        """One row of each kind: the row with the most slots that can serve now, among equals the earliest."""
        columns, size = self.columns, len(self.columns)
        shape, nearness = self._ranking(request).shape, np.arange(size - 1, -1, -1, dtype=np.intp)
        rows = shape.serving(columns, np.arange(size, dtype=np.intp))
        nearness[rows] += columns.over_slots(shape.able_slots(columns, rows)) * size
        nearest = np.full(len(columns.kinds), -1, dtype=np.intp)
        np.maximum.at(nearest, columns.kind, nearness)
        return sorted((size - 1 - nearest[nearest >= 0] % size).tolist())

    def _misfit(self, request: Request, row: int, known: dict[_RowKey, Misfit]) -> Misfit:
        columns = self.columns
        free = columns.free_host[:, row].tobytes(), columns.free_milli[row].tobytes(), columns.free_mib[row].tobytes()
        key = (row, int(columns.kind[row]), columns.members_left_on(row), *free)
        misfit = known.get(key)
        if misfit is None:
            if self._misfits_kept >= MISFITS_KEPT:
                known.clear()
                self._misfits.clear()
                self._misfits_kept = 0
            misfit = known[key] = self._compute_misfit(request, row)
            self._misfits[request] = known
            self._misfits_kept += 1
        return misfit

    def _compute_misfit(self, request: Request, row: int) -> Misfit:
        answer = fit(request, self.columns.state(row))
        if isinstance(answer, Fit):
            return Misfit(Cause.NO_NODE, request.gang_size, 1, eviction_helps=True, node=self.columns.names[row])
        return replace(answer, node=self.columns.names[row])


def _firsts(at: Rows, which: Rows) -> tuple[Rows, Rows]:
    """The pairs whose `at` differs from that of the pair before."""
    if len(at) < 2:
        return at, which
    first = np.empty(len(at), dtype=np.bool_)
    first[0] = True
    np.not_equal(at[1:], at[:-1], out=first[1:])
    return at.compress(first), which.compress(first)


def _last_of_best(scores: NDArray[Any]) -> Any:
    """The index of the last of the largest values along the last axis. Splittable shares use it."""
    return scores.shape[-1] - 1 - scores[..., ::-1].argmax(axis=-1)


def least_free(columns: Columns, request: Request, rows: Rows, able: NDArray[np.bool_]) -> Rows:
    """intp[devices, n]: the slots of each row with the least free, out of `able`; among equals, the lower."""
    devices = request.devices
    if not devices or not len(rows):
        return np.zeros((devices, len(rows)), dtype=np.intp)
    if devices == 1 and request.whole:
        return np.asarray(able.argmax(axis=1)[None], dtype=np.intp)
    free = np.where(able, columns.free_milli[rows], 2 * MILLI_PER_DEVICE)
    if devices == 1:
        least = _last_of_best(-free) if request.split_milli is not None else free.argmin(axis=1)
        return np.asarray(least[None], dtype=np.intp)
    ordered: Rows = np.argsort(free, axis=1, kind="stable")
    return np.ascontiguousarray(ordered[:, :devices].T)
