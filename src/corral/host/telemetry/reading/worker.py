"""A worker that reads devices one after the other, and says meanwhile which it is reading."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.errors import BackendFailed
from corral.core.ports.telemetry import Care, Source


class WorkerDied(BackendFailed):
    """A worker has ended by itself, for example because the driver's library crashed."""


@dataclass(frozen=True, slots=True)
class ReadOrder:
    """The task of a worker.

    Attributes:
        number: greater than that of each earlier order to the same worker.
        uuids: these devices in this order; None is every device and slice but the avoided ones.
        avoided: devices about which no call is made.
        known: all devices as last known, for a worker that knows none yet.
        inventory: also read the inventory.
    """

    number: int
    uuids: tuple[str, ...] | None
    avoided: tuple[Device, ...] = ()
    known: tuple[Device, ...] = ()
    inventory: bool = True


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """The result of a worker.

    Attributes:
        number: that of the order.
        node: the inventory; None if it is the same as in the worker's answer before, or was not to be read.
        source: the name of the source.
        samples: of the devices, in the order's order.
        error: why nothing could be read, None if it could.
        expected: whether the error is one of a driver (`BackendFailed`), and no fault of Corral.
    """

    number: int
    node: Node | None = None
    source: str = ""
    samples: tuple[DeviceSample, ...] = ()
    error: str | None = None
    expected: bool = True


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a worker is.

    Attributes:
        number: that of its present order, 0 if it has none.
        asking: the device that it is reading; None if it reads none, or the inventory.
        since_s: for how long.
        samples: those that it has read for this order.
        node: the inventory that it read last.
    """

    number: int
    asking: str | None
    since_s: float
    samples: tuple[DeviceSample, ...]
    node: Node | None = None


class Worker(Protocol):
    """A worker as its reader sees it. Calls return at once, apart from `answer`."""

    def begin(self, order: ReadOrder) -> None:
        """Have an order carried out after the one before, which nobody waits for any more."""
        ...

    def answer(self, timeout_s: float) -> ReadAnswer | None:
        """Return the next answer, None if none came in time. Raises WorkerDied."""
        ...

    def where(self) -> Whereabouts | None:
        """Return where the worker is, None if it does not even say that."""
        ...

    def abandon(self) -> None:
        """End the worker, even if a call of its hangs."""
        ...

    def ended(self) -> bool:
        """Return whether nothing of an abandoned worker is left."""
        ...


class SourceThread:
    """Carries out orders to a source on a thread of its own, and passes each answer to `send`."""

    def __init__(self, source: Source, send: Callable[[ReadAnswer], None]) -> None:
        self._source = source
        self._send = send
        self._orders: queue.SimpleQueue[ReadOrder | None] = queue.SimpleQueue()
        self._newest = 0
        self._node: Node | None = None
        self._here = Whereabouts(0, None, 0.0, ())
        self._since_s = time.monotonic()
        self.thread = threading.Thread(target=self._work, name="driver-calls", daemon=True)
        self.thread.start()

    def begin(self, order: ReadOrder) -> None:
        """Carry out an order after the present call. An order before it is given up."""
        self._newest = order.number
        self._orders.put(order)

    def end(self) -> None:
        """Let the thread end after its present call."""
        self._newest += 1
        self._orders.put(None)

    def where(self) -> Whereabouts:
        """Return where the thread is."""
        here = self._here
        return Whereabouts(here.number, here.asking, time.monotonic() - self._since_s, here.samples, self._node)

    def _be(self, number: int, asking: str | None, samples: tuple[DeviceSample, ...] = ()) -> None:
        self._since_s = time.monotonic()
        self._here = Whereabouts(number, asking, 0.0, samples)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            if order.number < self._newest:
                continue
            self._be(order.number, None)
            try:
                answer = self._carry_out(order)
            except BackendFailed as error:
                answer = ReadAnswer(order.number, error=str(error))
            except Exception as error:
                answer = ReadAnswer(order.number, error=f"{type(error).__name__}: {error}", expected=False)
            self._be(0, None)
            if answer is not None:
                self._send(answer)

    def _carry_out(self, order: ReadOrder) -> ReadAnswer | None:
        """Return the answer to an order, None if there is a newer one meanwhile."""
        self._source.take_care(Care(order.avoided, order.known, partial(self._be, order.number)))
        # Before its first inventory a source has no driver open.
        node = self._inventory() if order.inventory or self._node is None else None
        uuids = _all_but(self._node, order.avoided) if order.uuids is None else order.uuids
        samples = self._samples(order.number, uuids)
        return None if samples is None else ReadAnswer(order.number, node, self._source.name, samples)

    def _inventory(self) -> Node | None:
        """Return the inventory if it is new. Without one, samples are still taken."""
        try:
            node = self._source.node()
        except BackendFailed:
            return None
        if node is self._node:
            return None
        self._node = node
        return node

    def _samples(self, number: int, uuids: Sequence[str]) -> tuple[DeviceSample, ...] | None:
        if not self._source.one_by_one:
            return self._source.sample(uuids)
        samples: tuple[DeviceSample, ...] = ()
        for uuid in uuids:
            if number < self._newest:
                return None
            self._be(number, uuid, samples)
            samples += self._source.sample([uuid])
        self._be(number, None, samples)
        return samples


def _all_but(node: Node | None, avoided: Sequence[Device]) -> tuple[str, ...]:
    """Return the devices and slices of a node, without those of the avoided devices."""
    left = {device.uuid for device in avoided}
    devices = [device for device in (() if node is None else node.devices) if device.uuid not in left]
    return tuple(uuid for device in devices for uuid in (device.uuid, *(part.uuid for part in device.partitions)))


class ThreadWorker:
    """A worker that is a thread of this process. A hanging call keeps the thread, which then does nothing more."""

    def __init__(self, source: Source) -> None:
        self._answers: queue.SimpleQueue[ReadAnswer] = queue.SimpleQueue()
        self._thread = SourceThread(source, self._answers.put)

    def begin(self, order: ReadOrder) -> None:
        """Have an order carried out."""
        self._thread.begin(order)

    def answer(self, timeout_s: float) -> ReadAnswer | None:
        """Return the next answer, None if none came in time."""
        try:
            return self._answers.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None

    def where(self) -> Whereabouts:
        """Return where the worker is."""
        return self._thread.where()

    def abandon(self) -> None:
        """Let the thread end after its present call."""
        self._thread.end()

    def ended(self) -> bool:
        """Return whether the thread has ended."""
        return not self._thread.thread.is_alive()
