"""What a device is given is done in its order, beside what others are given, and a failure is its own."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from corral.core.model.errors import BackendFailed
from corral.host.node.worker_queues import WORKERS, WorkerQueues

PATIENCE_S = 60.0


def wait(gate: threading.Event) -> None:
    assert gate.wait(PATIENCE_S)


@pytest.fixture
def queues() -> Iterator[WorkerQueues]:
    queues = WorkerQueues()
    yield queues
    queues.close()


def test_what_is_put_under_a_key_keeps_its_order_however_long_it_takes(queues: WorkerQueues) -> None:
    gate, done, last = threading.Event(), list[int](), threading.Event()
    queues.put("GPU-a", partial(wait, gate))
    for number in range(20):
        queues.put("GPU-a", partial(done.append, number))
    queues.put("GPU-a", last.set)
    gate.set()
    wait(last)
    assert done == list(range(20))


def test_a_key_that_is_held_up_holds_up_no_other(queues: WorkerQueues) -> None:
    gate, other = threading.Event(), threading.Event()
    for number in range(WORKERS - 1):
        queues.put(f"GPU-{number}", partial(wait, gate))
    queues.put("GPU-z", other.set)
    wait(other)
    gate.set()


def test_what_fails_keeps_nothing_after_it_from_being_done(queues: WorkerQueues) -> None:
    def fail() -> None:
        raise BackendFailed("it hangs")

    done = threading.Event()
    queues.put("GPU-a", fail)
    queues.put("GPU-a", done.set)
    wait(done)
