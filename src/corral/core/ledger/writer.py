"""The only writer: a thread that groups waiting operations into one transaction, and publishes after it is on disk."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from corral.core.ledger.batch import Batch, Commit, Observe, Operation
from corral.core.ledger.changes import move_ceiling
from corral.core.ledger.database import Database, RowsRefused
from corral.core.ledger.ids import IdCounter
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import Delta
from corral.core.model.slice import LedgerSnapshot
from corral.core.model.view import View
from corral.core.ports.ledger import CommitFigures
from corral.fair_queue import FairQueue

BATCH_LIMIT = 256
"""The most operations in one transaction, and the most jobs that these operations concern.

The limit keeps the first operation from waiting long for many later ones. An operation that concerns more jobs has a
transaction of its own. Operations of other users run between two large ones.
"""

IDLE_S = 0.5
"""After this time without an operation, the write-ahead log is folded into the database, while nobody waits for it."""

Listener = Callable[[View, Sequence[Delta]], None]

_log = logging.getLogger(__name__)


class Writer:
    """Runs operations. Users take turns; the operations for one user run in the order in which they were put.

    After a batch, its transaction is on disk. Then the snapshot is published, listeners are called, and futures
    resolve.
    """

    def __init__(self, database: Database, snapshot: LedgerSnapshot, last_entry: int, ids: IdCounter) -> None:
        self.snapshot = snapshot
        self.position = last_entry
        self.listeners: tuple[Listener, ...] = ()
        self.figures = CommitFigures()
        self._database = database
        self.last_entry = last_entry
        self._ids = ids
        self._log_grew = False
        self._waiting: FairQueue[Operation] = FairQueue()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="corral-ledger", daemon=True)
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller runs on the writer's thread."""
        return threading.current_thread() is self._thread

    def put(self, operation: Operation, user: str) -> None:
        """Queue an operation for a user. After `close` a commit raises LedgerFailed through its future."""
        with self._changed:
            if not self._closed:
                self._waiting.put(user, operation)
                self._changed.notify()
                return
        if isinstance(operation, Commit):
            operation.future.set_exception(LedgerFailed("the ledger is closed; the server is stopping"))

    def close(self) -> None:
        """Finish all queued operations, return unused ids, and stop. Further calls do nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        for batch in self._batches():
            self._process(batch)
        unused = self._ids.unused
        if unused != self._ids.ceiling:
            try:
                with self._database.writing() as connection:
                    move_ceiling(connection, self._ids.ceiling, unused)
            except LedgerFailed as error:
                _log.warning("some job numbers will be skipped: %s", error)

    def _batches(self) -> Iterator[list[Operation]]:
        while self._wait():
            yield self._batch()

    def _batch(self) -> list[Operation]:
        """The operations of the next transaction."""
        batch: list[Operation] = []
        jobs = 0

        def fits(operation: Operation) -> bool:
            return not batch or jobs + operation.jobs <= BATCH_LIMIT

        with self._changed:
            while len(batch) < BATCH_LIMIT and (operation := self._waiting.pop(fits)) is not None:
                batch.append(operation)
                jobs += operation.jobs
        return batch

    def _wait(self) -> bool:
        """Wait for an operation. Return True if one waits, False once all is done after `close`."""
        while True:
            with self._changed:
                found = self._changed.wait_for(
                    lambda: self._waiting or self._closed, IDLE_S if self._log_grew else None
                )
                if found:
                    return len(self._waiting) > 0
            self._checkpoint()

    def _checkpoint(self) -> None:
        self._log_grew = False
        try:
            self._database.checkpoint()
        except LedgerFailed as error:
            _log.warning("the write-ahead log could not be folded: %s", error)

    def _process(self, operations: Sequence[Operation]) -> None:
        batch = self._decided(operations)
        try:
            self._write(batch)
        except Exception as error:
            at_fault = isinstance(error, RowsRefused) or not isinstance(error, LedgerFailed)
            self.figures.failures += not at_fault
            if at_fault and len(operations) > 1:
                for operation in operations:
                    self._process([operation])
                return
            observed = self._decided([operation for operation in operations if isinstance(operation, Observe)])
            self._publish(observed.freeze(), observed.deltas)
            batch.resolve(error)
        else:
            self._publish(batch.freeze(), batch.deltas)
            batch.resolve()

    def _decided(self, operations: Sequence[Operation]) -> Batch:
        batch = Batch(self.snapshot, self.last_entry)
        for operation in operations:
            batch.run(operation)
        return batch

    def _write(self, batch: Batch) -> None:
        ceiling = self._ids.ceiling_due()
        if not batch.facts and ceiling is None:
            return
        began_s = time.perf_counter()
        with self._database.writing() as connection:
            if batch.facts:
                batch.write(connection)
            if ceiling is not None:
                move_ceiling(connection, self._ids.ceiling, ceiling)
        self.figures.seconds.add(time.perf_counter() - began_s)
        self.figures.facts.add(len(batch.facts))
        self._log_grew = True
        self.last_entry += len(batch.facts)
        if ceiling is not None:
            self._ids.reserved(ceiling)

    def _publish(self, snapshot: LedgerSnapshot, deltas: Sequence[Delta]) -> None:
        if not deltas:
            return
        self.snapshot = snapshot
        self.position = self.last_entry
        for listener in self.listeners:
            try:
                listener(snapshot.view, deltas)
            except Exception:
                _log.exception("a listener of the ledger failed")
