"""Slices: the parts of the ledger that features own, folded from the same journal as the view.

A feature writes its own facts into the one journal. A view has only data for decisions about jobs, so these facts do
not change the view; they advance the feature's slice. View and slices of one version are published together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, TypeVar

from corral.core.model.draft import DraftOf
from corral.core.model.fact import Delta, Fact
from corral.core.model.view import View, ViewDraft

S = TypeVar("S", bound="Slice")


@dataclass(frozen=True)
class Slice:
    """A frozen value that results from deltas alone.

    Attributes:
        deltas: the classes of facts and observations that it is folded from, with their subclasses.
        rows: makes an `OwnRows` of `corral.core.ledger`, if the feature has a table of its own.
    """

    deltas: ClassVar[tuple[type[Delta], ...]] = ()
    rows: ClassVar[Callable[[], Any] | None] = None

    @staticmethod
    def fold(draft: DraftOf[Any], delta: Delta) -> None:
        """Apply one delta, of a class in `deltas`, to the slice."""
        raise NotImplementedError

    def follows(self, view: View, facts: Sequence[Fact]) -> Sequence[Fact]:
        """The facts that follow from these, which were just decided. All are written in one transaction. Pure.

        `view` is the view after `facts`, with the jobs that they end; this slice is also after `facts`.
        """
        return ()

    def advance(self: S, deltas: Iterable[Delta]) -> S:
        """The slice after `deltas`; this one does not change."""
        draft = DraftOf(self)
        for delta in deltas:
            if isinstance(delta, self.deltas):
                self.fold(draft, delta)
        return draft.freeze()


SliceType = type[Slice]


class _FoldedInto(dict[type[Delta], tuple[SliceType, ...]]):
    """The slices that each class of deltas is folded into, cached because it is looked up for every delta.

    Attributes:
        followers: the slices from which facts may follow.
    """

    def __init__(self, kinds: tuple[SliceType, ...]) -> None:
        self._kinds = kinds
        self.followers = tuple(kind for kind in kinds if kind.follows is not Slice.follows)

    def __missing__(self, delta: type[Delta]) -> tuple[SliceType, ...]:
        found = self[delta] = tuple(kind for kind in self._kinds if issubclass(delta, kind.deltas))
        return found


_folded_into = cache(_FoldedInto)


@dataclass(frozen=True)
class LedgerSnapshot:
    """The view and the slices of one version."""

    view: View = field(default_factory=View)
    slices: Mapping[SliceType, Slice] = field(default_factory=dict)

    def of(self, kind: type[S]) -> S:
        """The slice of this class; an empty one if the ledger was opened without it."""
        found = self.slices.get(kind)
        return found if isinstance(found, kind) else kind()

    def advance(self, deltas: Iterable[Delta]) -> "LedgerSnapshot":
        """The snapshot after `deltas`; this one does not change."""
        draft = LedgerDraft(self)
        draft.apply(tuple(deltas))
        return draft.freeze()


def empty_snapshot(kinds: Iterable[SliceType], view: View | None = None) -> LedgerSnapshot:
    """A snapshot before the first fact, with a slice of each class; `view` has the site's parameters of usage."""
    return LedgerSnapshot(view or View(), {kind: kind() for kind in kinds})


class LedgerDraft:
    """A snapshot being advanced.

    Attributes:
        of_view: the draft of its view.
        view: the view so far; only valid until the next delta.
    """

    def __init__(self, base: LedgerSnapshot) -> None:
        self.of_view = ViewDraft(base.view)
        self.view = self.of_view.view
        self._base = base
        self._folded_into = _folded_into(tuple(base.slices))
        self._drafts: dict[SliceType, DraftOf[Any]] = {}

    def of(self, kind: type[S]) -> S:
        """The slice so far; only valid until the next delta."""
        draft = self._drafts.get(kind)
        return self._base.of(kind) if draft is None else draft.value

    def apply(self, deltas: Sequence[Delta]) -> None:
        """Advance by each delta in turn. Raises as `ViewDraft.apply_uncut`; `freeze` assigns the devices of pools."""
        self.of_view.apply_uncut(deltas)
        for delta in deltas:
            for kind in self._folded_into[type(delta)]:
                kind.fold(self._draft(kind), delta)

    def take(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Advance by the facts of one decision and by the facts that follow. Return all of these facts, in order."""
        self.apply(facts)
        for kind in self._folded_into.followers:
            more = self.of(kind).follows(self.view, facts)
            if more:
                self.apply(more)
                facts = (*facts, *more)
        return facts

    def freeze(self) -> LedgerSnapshot:
        """The finished snapshot, without the jobs that ended."""
        slices = self._base.slices
        if self._drafts:
            slices = {**slices, **{kind: draft.freeze() for kind, draft in self._drafts.items()}}
        return LedgerSnapshot(self.of_view.freeze(), slices)

    def _draft(self, kind: SliceType) -> DraftOf[Any]:
        if kind not in self._drafts:
            self._drafts[kind] = DraftOf(self._base.of(kind))
        return self._drafts[kind]
