"""Runs the tasks of each node in order: on threads of the node, so that a hanging node delays no other, or on a shared
pool.

A node has two threads of its own, started when they are needed. One runs actions; the other asks questions that a
decision waits for. Each inspection of user files may be slow and has its own thread.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from corral.core.control.nodes.thread_pool import ThreadPool
from corral.core.model.errors import CorralError, NodeUnreachable
from corral.fair_queue import SERVER, FairQueue

log = logging.getLogger(__name__)

T = TypeVar("T")
Task = Callable[[], None]

MAX_WAITING = 20_000
"""The most tasks of one user that wait for a node: the dispatcher's recheck finds the remaining work again."""


TASKS_IN_A_ROW = 64
"""The most tasks of one node that run before tasks of another node that waits for the same thread."""


MAX_INSPECTIONS = 32
"""The most inspections of user files on one node at the same time."""


class TaskQueue:
    """Runs tasks one after another on a thread of a pool. Users take turns; tasks of one user run in order.

    A CorralError of a task is logged; any other error ends the server.
    """

    def __init__(self, name: str, pool: ThreadPool | None = None) -> None:
        """Without a pool the queue has a thread of its own."""
        self._name = name
        self._pool = pool or ThreadPool(name, 1)
        # Thousands of nodes have two queues each: a lock takes a tenth of the memory of a condition.
        self._waiting: FairQueue[Task] = FairQueue()
        self._lock = threading.Lock()
        self._busy = False
        self._at_rest: threading.Event | None = None
        self._stopped = False

    def put(self, task: Task, user: str = SERVER) -> bool:
        """Add a task of a user. Return False, without adding it, if too many tasks of the user wait, or after
        `stop`.
        """
        with self._lock:
            if self._stopped or self._waiting.of(user) >= MAX_WAITING:
                return False
            self._waiting.put(user, task)
            if not self._busy:
                self._busy = True
                self._pool.submit(self._run)
        return True

    def stop(self) -> None:
        """Accept no more tasks. The waiting tasks still run."""
        with self._lock:
            self._stopped = True

    def drop(self) -> list[Task]:
        """Accept no more tasks, and return the waiting ones, which will not run."""
        dropped = []
        with self._lock:
            self._stopped = True
            while (task := self._waiting.pop()) is not None:
                dropped.append(task)
        return dropped

    def join(self, timeout_s: float) -> None:
        """Wait until no task runs, at most `timeout_s`."""
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
        # Tasks that other queues put into the pool meanwhile run first.
        self._pool.submit(self._run)

    def _next(self) -> Task | None:
        with self._lock:
            if (task := self._waiting.pop()) is not None:
                return task
            self._busy = False
            if self._at_rest is not None:
                self._at_rest.set()
                self._at_rest = None
            return None


class _Asked(Generic[T]):
    """A question to a node, as a task, and the future of its answer."""

    def __init__(self, question: Callable[[], T]) -> None:
        self._question = question
        self.answer: Future[T] = Future()

    def __call__(self) -> None:
        _answer(self._question, self.answer)


class NodeWorker:
    """Runs actions on one node, and asks it questions."""

    def __init__(self, node: str, acting: ThreadPool | None = None, asking: ThreadPool | None = None) -> None:
        """Without pools the worker has threads of its own."""
        self._node = node
        self._acts = TaskQueue(f"node-{node}", acting)
        self._questions = TaskQueue(f"ask-{node}", asking)
        self._lock = threading.Lock()
        self._inspections = 0
        self._rechecking = False

    def put(self, task: Task, user: str = SERVER) -> bool:
        """Run a task on the node, after earlier tasks of this user. Return False if too many tasks wait."""
        return self._acts.put(task, user)

    def recheck(self, task: Task) -> None:
        """Run a recheck unless the last recheck of the node still waits: a hanging node has at most one."""
        if not self._rechecking:
            self._rechecking = True

            def act() -> None:
                self._rechecking = False
                task()

            if not self._acts.put(act):
                self._rechecking = False

    def ask(self, question: Callable[[], T]) -> "Future[T]":
        """Ask a question in parallel to the actions. The future has the CorralError if there is no answer."""
        asked = _Asked(question)
        if not self._questions.put(asked):
            asked.answer.set_exception(
                NodeUnreachable(f"node {self._node} gets no request now: it has left, or too many tasks wait for it")
            )
        return asked.answer

    def inspect(self, question: Callable[[], T]) -> "Future[T]":
        """Ask a question as `ask` does, on a thread of its own: the files of one user may be slow, and nothing else
        waits for them.
        """
        answer: Future[T] = Future()
        with self._lock:
            if self._inspections >= MAX_INSPECTIONS:
                why = f"node {self._node} gets no request now: too many files are inspected there"
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
        """Accept no more tasks. Waiting questions are answered with that: a node of this name may join again, and
        nobody would ask it while an earlier question is open.
        """
        self._acts.stop()
        for task in self._questions.drop():
            if isinstance(task, _Asked):
                task.answer.set_exception(NodeUnreachable(f"node {self._node} has left before it was asked"))

    def join(self, timeout_s: float) -> None:
        """Wait for the running tasks, at most `timeout_s`."""
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
