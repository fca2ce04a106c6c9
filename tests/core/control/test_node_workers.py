"""What is to be done on a node is done in order on its own thread, and never silently left out."""

import threading

import pytest

from corral.core.control.nodes import node_workers
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.nodes.node_workers import NodeWorker, TaskQueue
from corral.core.model.errors import BackendFailed, NodeUnreachable

EVENT_S = 60.0


def test_tasks_are_done_in_order_and_one_that_fails_keeps_no_other_from_being_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[int] = []

    def fail() -> None:
        raise BackendFailed("the disk is full")

    tasks = TaskQueue("node-a")
    for task in (lambda: done.append(1), fail, lambda: done.append(2)):
        assert tasks.put(task)
    tasks.stop()
    tasks.join(EVENT_S)
    assert done == [1, 2]
    assert "node-a: the disk is full" in caplog.text


def test_what_comes_after_the_stop_is_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    worker = NodeWorker("a")
    worker.stop()
    assert not worker.put(lambda: None)
    assert isinstance(worker.ask(lambda: 1).exception(EVENT_S), NodeUnreachable)


def test_a_question_that_waits_when_its_node_leaves_is_not_open_for_ever() -> None:
    worker, begun, goes_on = NodeWorker("a"), threading.Event(), threading.Event()

    def hang() -> bool:
        begun.set()
        return goes_on.wait(EVENT_S)

    asked, waiting = worker.ask(hang), worker.ask(lambda: True)
    assert begun.wait(EVENT_S)
    worker.stop()
    assert "node a has left" in str(waiting.exception(EVENT_S))
    goes_on.set()
    assert asked.result(EVENT_S)


def test_more_than_so_much_waits_for_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_workers, "MAX_WAITING", 2)
    go_on, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        go_on.wait(EVENT_S)

    tasks = TaskQueue("node-a")
    tasks.put(hang)
    assert begun.wait(EVENT_S)
    assert [tasks.put(lambda: None) for _ in range(3)] == [True, True, False]
    go_on.set()


def held_back() -> tuple[NodeWorker, threading.Event]:
    """A node that is busy until it is told to go on."""
    worker, go_on, begun = NodeWorker("a"), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        go_on.wait(EVENT_S)

    worker.put(hang)
    assert begun.wait(EVENT_S)
    return worker, go_on


def test_users_take_turns_on_a_node_and_what_is_done_for_one_is_done_in_order() -> None:
    worker, go_on = held_back()
    done: list[str] = []
    for number in range(50):
        worker.put(lambda number=number: done.append(f"ann {number}"), "ann")  # type: ignore[misc]
    worker.put(lambda: done.append("bob"), "bob")
    worker.put(lambda: done.append("the server"))
    worker.recheck(lambda: done.append("recheck"))
    go_on.set()
    worker.stop()
    worker.join(EVENT_S)
    assert done[:6] == ["ann 0", "bob", "the server", "ann 1", "recheck", "ann 2"]
    assert [one for one in done if one.startswith("ann")] == [f"ann {number}" for number in range(50)]


def test_one_user_of_whom_too_much_waits_keeps_nothing_of_another_from_being_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_workers, "MAX_WAITING", 2)
    worker, go_on = held_back()
    assert [worker.put(lambda: None, "ann") for _ in range(3)] == [True, True, False]
    assert worker.put(lambda: None, "bob")
    assert worker.put(lambda: None)
    go_on.set()


def test_a_node_that_hangs_has_one_recheck_waiting_and_no_more() -> None:
    go_on, done = threading.Event(), list[str]()
    worker = NodeWorker("a")
    worker.put(lambda: (go_on.wait(EVENT_S), None)[1])
    for name in ("first", "second"):
        worker.recheck(lambda name=name: done.append(name))  # type: ignore[misc]
    go_on.set()
    worker.stop()
    worker.join(EVENT_S)
    assert done == ["first"]


def test_questions_are_answered_beside_what_is_being_done() -> None:
    go_on = threading.Event()
    worker = NodeWorker("a")
    worker.put(lambda: (go_on.wait(EVENT_S), None)[1])
    assert worker.ask(lambda: 7).result(EVENT_S) == 7
    go_on.set()


def test_who_goes_through_the_nodes_sees_those_that_there_were() -> None:
    nodes = Nodes({"a": None, "b": None})  # type: ignore[dict-item]
    seen = []
    for name, _ in nodes.items():
        nodes.remove("b")
        seen.append(name)
    assert (seen, list(nodes)) == (["a", "b"], ["a"])
