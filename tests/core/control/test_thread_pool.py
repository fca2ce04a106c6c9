"""A pool has as many threads as it needs, no more than it may, and none once there is nothing to do."""

import threading
import time
from collections.abc import Callable

import pytest

from corral.core.control.nodes import thread_pool
from corral.core.control.nodes.node_workers import NodeWorker, TaskQueue
from corral.core.control.nodes.thread_pool import ThreadPool

EVENT_S = 60.0


def threads(name: str) -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith(name)]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + EVENT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.005)


def test_many_nodes_share_a_few_threads_and_each_has_its_work_done_in_order() -> None:
    pool, done = ThreadPool("few", 4), [list[int]() for _ in range(200)]
    queues = [TaskQueue(f"node-{number}", pool) for number in range(200)]
    for turn in range(100):
        for number, tasks in enumerate(queues):
            assert tasks.put(lambda number=number, turn=turn: done[number].append(turn))  # type: ignore[misc]
    most = len(threads("few-"))
    for tasks in queues:
        tasks.stop()
        tasks.join(EVENT_S)
    assert done == [list(range(100))] * 200
    assert 1 <= most <= 4


def test_a_node_with_much_to_do_lets_others_come_between() -> None:
    pool, done, begin = ThreadPool("one", 1), list[str](), threading.Event()
    busy, other = TaskQueue("node-a", pool), TaskQueue("node-b", pool)
    busy.put(lambda: (begin.wait(EVENT_S), None)[1])
    for _ in range(1000):
        busy.put(lambda: done.append("a"))
    other.put(lambda: done.append("b"))
    begin.set()
    other.stop()
    other.join(EVENT_S)
    assert done.index("b") < 100


def test_what_hangs_on_one_thread_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, go_on = ThreadPool("two", 2), threading.Event()
    hung = NodeWorker("a", pool, pool)
    hung.put(lambda: (go_on.wait(EVENT_S), None)[1])
    assert NodeWorker("b", pool, pool).ask(lambda: 7).result(EVENT_S) == 7
    go_on.set()


def test_threads_end_when_there_is_nothing_to_do_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "IDLE_S", 0.01)
    pool, done = ThreadPool("brief", 3), threading.Event()
    for _ in range(2):
        done.clear()
        pool.submit(done.set)
        assert done.wait(EVENT_S)
        eventually(lambda: not threads("brief-"))
