"""What is done on each node, in its order: by threads of the node's own, so that one that hangs delays no other, or by
a pool that many nodes share.

A node's own are two, started when they are needed: one acts on it, the other asks what a decision waits for. Each look
at files of users, which may be slow, has one of its own.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from corral.core.control.nodes.thread_pool import ThreadPool
from corral.core.model.errors import CorralError, NodeUnreachable
from corral.fair_queue import SERVER, FairQueue

log = logging.getLogger(__name__)

T = TypeVar("T")
Task = Callable[[], None]

MAX_WAITING = 20_000
"""No more tasks of one user than this wait for a node: the dispatcher's recheck finds again what else is to be done."""


TASKS_IN_A_ROW = 64
"""So many tasks of one node are done before those of another that waits for the same thread."""


MAX_INSPECTIONS = 32
"""So many looks at files of users wait for one node at the same time."""


class TaskQueue:
    """Does one task after the other, on a thread of a pool: users take turns, and what is put for one is done in order.
    A CorralError of a task is logged, any other ends the server.
    """

    def __init__(self, name: str, pool: ThreadPool | None = None) -> None:
        """Without a pool it has a thread of its own."""
        self._name = name
        self._pool = pool or ThreadPool(name, 1)
        # There are two of these for each of thousands of nodes: a lock is a tenth of a condition.
        self._waiting: FairQueue[Task] = FairQueue()
        self._lock = threading.Lock()
        self._busy = False
        self._at_rest: threading.Event | None = None
        self._stopped = False
        self._leaving = False

    def put(self, task: Task, user: str = SERVER) -> bool:
        """Have it done in the user's turn, after what was put before for them; False, and nothing is done, where too
        much waits, or after `stop`.
        """
        with self._lock:
            if self._stopped or self._waiting.of(user) >= MAX_WAITING:
                return False
            self._waiting.put(user, task)
            if not self._busy:
                self._busy = True
                self._pool.submit(self._run)
        return True

    def stop(self, *, leaving: bool = False) -> None:
        """Do what was put so far and no more; nothing of that either, when `leaving` it."""
        with self._lock:
            self._stopped = True
            self._leaving = leaving

    def join(self, timeout_s: float) -> None:
        """Wait until nothing is being done, but no longer than that."""
        with self._lock:
            if not self._busy:
                return
            at_rest = self._at_rest = self._at_rest or threading.Event()
        at_rest.wait(max(0.0, timeout_s))

    def _run(self) -> None:
        for _ in range(TASKS_IN_A_ROW):
            task = self._next()
            if task is None:
                return
            try:
                task()
            except CorralError as error:
                log.error("%s: %s", self._name, error)
        # What other queues put into the pool meanwhile is done first.
        self._pool.submit(self._run)

    def _next(self) -> Task | None:
        with self._lock:
            if not self._leaving and (task := self._waiting.pop()) is not None:
                return task
            self._busy = False
            if self._at_rest is not None:
                self._at_rest.set()
                self._at_rest = None
            return None


class NodeWorker:
    """What is done on one node, and asked of it."""

    def __init__(self, node: str, acting: ThreadPool | None = None, asking: ThreadPool | None = None) -> None:
        """Without pools it has threads of its own."""
        self._node = node
        self._acts = TaskQueue(f"node-{node}", acting)
        self._questions = TaskQueue(f"ask-{node}", asking)
        self._lock = threading.Lock()
        self._inspections = 0
        self._rechecking = False

    def put(self, task: Task, user: str = SERVER) -> bool:
        """Have it done on the node, in order with what else is for this user; False where too much waits already."""
        return self._acts.put(task, user)

    def recheck(self, task: Task) -> None:
        """Have it done unless the last recheck of the node still waits: a node that hangs has one and no more."""
        if not self._rechecking:
            self._rechecking = True

            def act() -> None:
                self._rechecking = False
                task()

            if not self._acts.put(act):
                self._rechecking = False

    def ask(self, question: Callable[[], T]) -> "Future[T]":
        """Ask beside what is being done there. The future holds the CorralError where there is no answer."""
        answer: Future[T] = Future()
        if not self._questions.put(lambda: _answer(question, answer)):
            answer.set_exception(
                NodeUnreachable(f"node {self._node} is not asked: it has left, or too much waits for it")
            )
        return answer

    def inspect(self, question: Callable[[], T]) -> "Future[T]":
        """As `ask`, beside all else: the files of one user may be slow, and no other waits for them."""
        answer: Future[T] = Future()
        with self._lock:
            if self._inspections >= MAX_INSPECTIONS:
                why = f"node {self._node} is not asked: too many files are looked at there"
                answer.set_exception(NodeUnreachable(why))
                return answer
            self._inspections += 1

        def look() -> None:
            try:
                _answer(question, answer)
            finally:
                with self._lock:
                    self._inspections -= 1

        threading.Thread(target=look, name=f"files-{self._node}", daemon=True).start()
        return answer

    def stop(self) -> None:
        """Take on nothing more, and leave questions."""
        self._acts.stop()
        self._questions.stop(leaving=True)

    def join(self, timeout_s: float) -> None:
        """Wait for what is being done, but no longer than that."""
        deadline = time.monotonic() + timeout_s
        for tasks in (self._acts, self._questions):
            tasks.join(deadline - time.monotonic())


def _answer(question: Callable[[], T], answer: "Future[T]") -> None:
    """Put the value or the CorralError of the question into the future."""
    try:
        value = question()
    except CorralError as error:
        answer.set_exception(error)
    else:
        answer.set_result(value)
