"""What a device is given is done in its order, beside what others are given, and a failure is its own."""

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from corral.control.worker_queues import WORKERS, WorkerQueues
from corral.model.errors import BackendFailed

PATIENCE_S = 60.0


def wait(gate: threading.Event) -> None:
    assert gate.wait(PATIENCE_S)


@pytest.fixture
def lanes() -> Iterator[WorkerQueues]:
    lanes = WorkerQueues()
    yield lanes
    lanes.close()


def test_a_lane_keeps_its_order_however_long_its_deeds_take(lanes: WorkerQueues) -> None:
    gate, done = threading.Event(), list[int]()

    lanes.put("GPU-a", partial(wait, gate))
    later = [lanes.put("GPU-a", partial(done.append, number)) for number in range(20)]
    gate.set()
    later[-1].result(PATIENCE_S)
    assert done == list(range(20))


def test_a_lane_that_is_held_up_holds_up_no_other(lanes: WorkerQueues) -> None:
    gate = threading.Event()
    held = [lanes.put(f"GPU-{n}", partial(wait, gate)) for n in range(WORKERS - 1)]
    lanes.put("GPU-z", lambda: None).result(PATIENCE_S)
    assert not any(deed.done() for deed in held)
    gate.set()


def test_a_failure_is_the_deeds_own(lanes: WorkerQueues) -> None:
    def fail() -> None:
        raise BackendFailed("it hangs")

    failed, next_ = lanes.put("GPU-a", fail), lanes.put("GPU-a", lambda: None)
    with pytest.raises(BackendFailed, match="it hangs"):
        failed.result(PATIENCE_S)
    next_.result(PATIENCE_S)


def test_what_was_not_begun_when_it_closed_is_left_undone() -> None:
    lanes, began, gate, done = WorkerQueues(), threading.Event(), threading.Event(), list[str]()

    def slow() -> None:
        began.set()
        wait(gate)
        done.append("slow")

    begun = lanes.put("GPU-a", slow)
    lanes.put("GPU-a", lambda: done.append("never"))
    assert began.wait(PATIENCE_S)
    closing = threading.Thread(target=lanes.close)
    closing.start()
    while not lanes.closing:
        time.sleep(0.001)
    gate.set()
    closing.join(PATIENCE_S)
    begun.result(PATIENCE_S)
    assert done == ["slow"]
