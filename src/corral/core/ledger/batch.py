"""A batch: operations decided one after another over one draft, to be written in one transaction."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from corral.core.ledger.changes import write_changes
from corral.core.ledger.table_rows import Row, journal_rows
from corral.core.model.fact import Delta, Fact, Observation
from corral.core.model.slice import LedgerDraft, LedgerSnapshot, SliceType
from corral.core.ports.ledger import Decided

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Commit:
    """An operation: run `decide`, write the facts that it decided, and resolve `future`.

    `decide` gets the view, or the slice of the class `over`. `jobs` is the number of jobs that it decides about.
    """

    decide: Callable[[Any], Decided[Any]]
    future: "Future[Any]"
    jobs: int = 1
    over: SliceType | None = None


@dataclass(frozen=True, slots=True)
class Observe:
    """Advance the view by measurements."""

    observations: Sequence[Observation]
    jobs: int = 1


Operation = Commit | Observe


class Batch:
    """The snapshot that results from a run of operations on an earlier one.

    An operation that raises changes nothing but its own outcome. Outcomes, refusals too, are kept until `resolve`. A
    refusal may rest on another decision of the same batch, so nobody may see it if that decision is never written.

    Attributes:
        deltas: facts and observations in the order decided.
        facts: the facts to write.
    """

    def __init__(self, base: LedgerSnapshot, last_entry: int) -> None:
        self._base = base
        self._draft = LedgerDraft(base)
        self._last_entry = last_entry
        self._outcomes: list[tuple[Future[Any], Any, Exception | None]] = []
        self._entries: list[Row] = []
        self.deltas: list[Delta] = []
        self.facts: list[Fact] = []

    def run(self, operation: Operation) -> None:
        """Decide one operation. Skip a commit whose future was cancelled meanwhile."""
        match operation:
            case Observe(observations=observations):
                try:
                    # Pools are not cut here: thousands of nodes may come at once, an operation each, and pools are cut
                    # from all of them.
                    self._draft.apply(observations)
                    self.deltas += observations
                except Exception:
                    self._undo()
                    _log.exception("observations without a waiting caller could not be applied")
            case Commit(future=future) if future.running() or future.set_running_or_notify_cancel():
                try:
                    self._outcomes.append((future, self._decide(operation), None))
                except Exception as error:
                    self._outcomes.append((future, None, error))

    def write(self, connection: Connection) -> None:
        """Write the facts to the journal and to the tables. Call this before `freeze`: it needs the jobs that ended."""
        rows = [kind.rows() for kind in self._base.slices if kind.rows is not None]
        write_changes(connection, self.facts, self._entries, self._draft.view, rows)

    def freeze(self) -> LedgerSnapshot:
        """The snapshot after all operations of the batch."""
        return self._draft.freeze()

    def resolve(self, failure: Exception | None = None) -> None:
        """Resolve every future with the outcome of its operation, or with `failure` if there is one."""
        for future, value, error in self._outcomes:
            raised = failure or error
            if raised is not None:
                future.set_exception(raised)
            else:
                future.set_result(value)

    def _decide(self, commit: Commit) -> Any:
        self._draft.of_view.cut_pools()
        decided = commit.decide(self._draft.view if commit.over is None else self._draft.of(commit.over))
        try:
            facts = self._draft.take(decided.facts)
            self._entries += journal_rows(self._last_entry + len(self.facts) + 1, facts)
        except Exception:
            self._undo()
            raise
        self.facts += facts
        self.deltas += facts
        return decided.value

    def _undo(self) -> None:
        """Make a new draft with only the deltas before: half of an operation may have been applied to the old one."""
        self._draft = LedgerDraft(self._base)
        self._draft.apply(self.deltas)
