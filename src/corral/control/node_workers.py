"""Threads of each node's own, so that a node that hangs delays no other.

A node has two, started when they are first needed: one acts on it, the other asks what a decision waits for. Each look
at files of users, which may be slow, has one of its own.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from corral.model.errors import CorralError, NodeUnreachable

log = logging.getLogger(__name__)

T = TypeVar("T")
Task = Callable[[], None]

MAX_WAITING = 20_000
"""More than so many tasks wait for no node: the dispatcher's recheck finds again what else is to be done there."""


MAX_INSPECTIONS = 32
"""So many looks at files of users wait for one node at the same time."""


class TaskQueue:
    """Does one task after the other on a thread of its own. A CorralError of a task is logged, any other ends the
    server.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self.closing = False
        """Whether what waits is left undone."""

    def put(self, task: Task) -> bool:
        """Have it done after what was put before; False, and nothing is done, where too much waits, or after `stop`."""
        with self._lock:
            if self._stopped or self._waiting.qsize() >= MAX_WAITING:
                return False
            self._waiting.put(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return True

    def stop(self, *, leaving: bool = False) -> None:
        """Do what was put so far and no more; nothing of that either, when `leaving` it."""
        with self._lock:
            self._stopped = True
            self.closing = leaving
            self._waiting.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the task in hand, but no longer than that."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(timeout=max(0.0, timeout_s))

    def _run(self) -> None:
        while (task := self._waiting.get()) is not None and not self.closing:
            try:
                task()
            except CorralError as error:
                log.error("%s: %s", self._name, error)


class NodeWorker:
    """What is done on one node, and asked of it."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._acts = TaskQueue(f"node-{node}")
        self._questions = TaskQueue(f"ask-{node}")
        self._inspections = threading.BoundedSemaphore(MAX_INSPECTIONS)
        self._rechecking = False

    def put(self, task: Task) -> bool:
        """Have it done on the node, in order; False where too much waits for the node already."""
        return self._acts.put(task)

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
        if not self._inspections.acquire(blocking=False):
            answer.set_exception(NodeUnreachable(f"node {self._node} is not asked: too many files are looked at there"))
            return answer

        def look() -> None:
            try:
                _answer(question, answer)
            finally:
                self._inspections.release()

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
