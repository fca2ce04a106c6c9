"""Reads devices with patience: one that hangs is left aside and tried again alone, and the others are read on."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corral.clock import Clock, SystemClock
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.devices.vitals import ReadFailure
from corral.core.model.errors import BackendFailed
from corral.core.ports.telemetry import Source
from corral.host.telemetry.driver_thread import CallHung
from corral.host.telemetry.reading.process_worker import ProcessWorker
from corral.host.telemetry.reading.worker import ReadAnswer, ReadOrder, ThreadWorker, Whereabouts, Worker

logger = logging.getLogger(__name__)

HANG_S = 1.0
"""A call about one device that takes longer hangs, and its worker is given up."""

REPLACED_WITHIN_S = 2.0
"""The time that a new worker has to read the other devices in the same round."""

TRY_AGAIN_S = 30.0
"""The time after which a device that hangs is tried again, and a worker that got no answer at all is replaced."""

HIRE_AGAIN_S = 5.0
"""The time after which a worker that has died is replaced."""

MOST_ABANDONED = 4
"""The most workers whose calls may hang at once. At this number none is made until one of them has ended."""

_HANGS = "a call to its driver hangs; nothing else is asked of it until the driver answers again"


@dataclass(slots=True)
class _Trial:
    """A device that hangs, and the worker that tries it alone, since `begun_s`."""

    device: Device
    begun_s: float = -math.inf
    worker: Worker | None = None


class DevicesRead(NamedTuple):
    """The result of a round: the inventory as last known, and the samples."""

    node: Node | None
    samples: tuple[DeviceSample, ...]


class PatientReader:
    """Reads the devices of a source through workers that `hire` makes. Thread-safe.

    Attributes:
        source: the name of the source, "none" before it has answered.
    """

    def __init__(self, hire: Callable[[], Worker], clock: Clock, *, hang_s: float = HANG_S) -> None:
        self._hire = hire
        self._clock = clock
        self._hang_s = hang_s
        self._lock = threading.Lock()
        self.source = "none"
        self._worker: Worker | None = None
        self._hired_s = 0.0
        self._died_s = -math.inf
        self._served = False
        self._closed = False
        self._number = 0
        self._abandoned: list[Worker] = []
        self._hung: dict[str, _Trial] = {}
        self._node: Node | None = None
        self._turn = 0

    def prepare(self) -> None:
        """Make the first worker, which starts while its reader does other things."""
        with self._lock:
            self._new_worker()

    def read(self, timeout_s: float, uuids: Sequence[str] | None = None) -> DevicesRead:
        """Read the inventory and all devices and slices, or these devices alone.

        A device that hangs has a fault. Raises CallHung if the driver answers for none in time, and BackendFailed.
        """
        until_s = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            raise CallHung(f"the driver has not answered for {timeout_s:.3g} s")
        try:
            self._tend_trials()
            return self._round(uuids, until_s, timeout_s)
        finally:
            self._lock.release()

    def close(self) -> None:
        """End all workers; a hanging call is abandoned."""
        self._closed = True
        trials = [trial.worker for trial in self._hung.values()]
        for worker in (self._worker, *trials):
            if worker is not None:
                worker.abandon()
        self._worker, self._hung = None, {}

    def _round(self, uuids: Sequence[str] | None, until_s: float, timeout_s: float) -> DevicesRead:
        asked = None if uuids is None else tuple(uuids)
        wanted = self._wanted(asked)
        if wanted == ():
            return self._sight(asked, {})
        worker = self._worker or self._new_worker()
        if self._hung and not self._served:
            until_s = min(until_s, time.monotonic() + REPLACED_WITHIN_S)
        answer = self._ask(worker, self._order(wanted, inventory=asked is None), until_s)
        if isinstance(answer, ReadAnswer):
            return self._sight(asked, self._taken(answer))
        if answer is None or self._lock_is_held(answer):
            held = bool(self._hung) and not self._served
            self._replace_if_old()
            raise CallHung(self._held() if held else f"the driver has not answered for {timeout_s:.3g} s")
        found = {sample.uuid: sample for sample in answer.samples}
        self._leave_aside(answer)
        return self._sight(asked, found | self._rest(asked, found))

    def _rest(self, asked: tuple[str, ...] | None, found: Mapping[str, DeviceSample]) -> dict[str, DeviceSample]:
        """Read with a new worker what the given up one had not read. Devices that it cannot read have a fault."""
        rest = tuple(uuid for uuid in self._wanted(asked) or () if uuid not in found)
        if not rest:
            return {}
        answer = self._ask(self._new_worker(), self._order(rest), time.monotonic() + REPLACED_WITHIN_S)
        if isinstance(answer, ReadAnswer):
            return self._taken(answer)
        read = {} if answer is None else {sample.uuid: sample for sample in answer.samples}
        fault = f"the driver has not answered for {REPLACED_WITHIN_S:.3g} s"
        if answer is not None and self._lock_is_held(answer):
            fault = self._held()
        elif answer is not None:
            self._leave_aside(answer)
        return {uuid: self._fault(uuid, fault, ReadFailure.DRIVER) for uuid in rest} | read

    def _ask(self, worker: Worker, order: ReadOrder, until_s: float) -> ReadAnswer | Whereabouts | None:
        """Return the answer; where the worker is, if a call about a device hangs; None if neither was heard in time."""
        try:
            return self._heard(worker, order, until_s)
        except BackendFailed:
            self._abandon(worker)
            self._worker, self._died_s = None, time.monotonic()
            raise

    def _heard(self, worker: Worker, order: ReadOrder, until_s: float) -> ReadAnswer | Whereabouts | None:
        worker.begin(order)
        pause_s = self._hang_s
        while True:
            left_s = until_s - time.monotonic()
            answer = worker.answer(min(left_s, pause_s))
            if answer is not None and answer.number == order.number:
                return answer
            if answer is not None:
                continue
            where = worker.where()
            if where is not None and where.asking is not None and where.since_s >= self._hang_s:
                return where
            if left_s <= pause_s:
                return None
            at_work = where is not None and where.asking is not None
            pause_s = self._hang_s - where.since_s if where is not None and at_work else self._hang_s

    def _taken(self, answer: ReadAnswer) -> dict[str, DeviceSample]:
        """Return the samples of an answer by UUID, and keep its inventory. Raises its error."""
        if answer.error is not None:
            raise BackendFailed(answer.error) if answer.expected else RuntimeError(answer.error)
        self._node, self.source, self._served = answer.node or self._node, answer.source, True
        return {sample.uuid: sample for sample in answer.samples}

    def _sight(self, asked: tuple[str, ...] | None, found: Mapping[str, DeviceSample]) -> DevicesRead:
        """Return what was read, and the faults of devices that hang, in the order of the inventory or the question."""
        order = self._known() if asked is None else asked
        hanging = {uuid for trial in self._hung.values() for uuid in _places(trial.device)}
        faults = {uuid: self._fault(uuid, _HANGS, ReadFailure.HUNG) for uuid in order if uuid in hanging}
        samples = {**found, **faults}
        unread = "the driver did not answer for it"
        return DevicesRead(
            self._node,
            tuple(samples.get(uuid) or self._fault(uuid, unread, ReadFailure.DRIVER) for uuid in order),
        )

    def _wanted(self, asked: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the devices to ask for, without those that hang; None is all, as long as none hangs."""
        if not self._hung:
            return asked
        hanging = {uuid for trial in self._hung.values() for uuid in _places(trial.device)}
        wanted = tuple(uuid for uuid in (self._known() if asked is None else asked) if uuid not in hanging)
        # Another device comes first after each replacement, so one more that hangs shows even if it was the first.
        turn = self._turn % max(1, len(wanted))
        return wanted[turn:] + wanted[:turn]

    def _known(self) -> tuple[str, ...]:
        return tuple(uuid for device in self._devices() for uuid in _places(device))

    def _devices(self) -> tuple[Device, ...]:
        return self._node.devices if self._node is not None else ()

    def _order(self, uuids: tuple[str, ...] | None, *, inventory: bool = True) -> ReadOrder:
        self._number += 1
        known = () if self._served else self._devices()
        return ReadOrder(self._number, uuids, tuple(trial.device for trial in self._hung.values()), known, inventory)

    def _lock_is_held(self, where: Whereabouts) -> bool:
        """Return whether a worker hangs since its beginning, beside a device that hangs: the call about that device
        keeps all others from the driver, and another worker would hang as this one does.
        """
        return bool(self._hung) and not where.samples and not self._served

    def _leave_aside(self, where: Whereabouts) -> None:
        """Ask no more, with the others, for the device at which the worker hangs."""
        self._give_up()
        self._node = where.node or self._node
        device = next((one for one in self._devices() if where.asking in _places(one)), None)
        if device is not None and device.uuid not in self._hung:
            logger.warning("GPU %s (%s): %s", device.index, device.uuid, _HANGS)
            self._hung[device.uuid] = _Trial(device)

    def _give_up(self) -> None:
        if self._worker is not None:
            self._abandon(self._worker)
            self._worker = None
            self._turn += 1

    def _abandon(self, worker: Worker) -> None:
        worker.abandon()
        self._abandoned.append(worker)

    def _replace_if_old(self) -> None:
        """Give up a worker that got no answer for long, if there may be another."""
        if time.monotonic() - self._hired_s >= TRY_AGAIN_S and self._may_hire():
            self._give_up()

    def _new_worker(self) -> Worker:
        if self._closed:
            raise BackendFailed("the reader is closed")
        if not self._may_hire():
            raise CallHung(f"the driver does not answer: {MOST_ABANDONED} calls hang")
        if time.monotonic() - self._died_s < HIRE_AGAIN_S:
            raise BackendFailed("the process that reads the driver has died; it is started again soon")
        self._worker, self._hired_s, self._served = self._hire(), time.monotonic(), False
        return self._worker

    def _may_hire(self) -> bool:
        self._forget_ended()
        return len(self._abandoned) < MOST_ABANDONED

    def _forget_ended(self) -> None:
        """Forget abandoned workers that have ended; a process is also reaped by that."""
        self._abandoned = [worker for worker in self._abandoned if not worker.ended()]

    def _tend_trials(self) -> None:
        """Take back devices that answer again, and try others again whose time has come."""
        now_s = time.monotonic()
        self._forget_ended()
        for uuid, trial in list(self._hung.items()):
            if trial.worker is not None and self._answers_again(trial):
                del self._hung[uuid]
                logger.info("GPU %s (%s): its driver answers again", trial.device.index, uuid)
            elif now_s - trial.begun_s >= TRY_AGAIN_S:
                self._try_alone(trial, now_s)

    def _answers_again(self, trial: _Trial) -> bool:
        assert trial.worker is not None
        try:
            answer = trial.worker.answer(0.0)
            again = None if answer is None else answer.error is None
        except BackendFailed:
            again = False
        if again is None:
            return False
        self._abandon(trial.worker)
        trial.worker = None
        return again

    def _try_alone(self, trial: _Trial, now_s: float) -> None:
        """Have a worker of its own read this device and no other. What it does not answer is still hanging."""
        if trial.worker is not None:
            self._abandon(trial.worker)
            trial.worker = None
        if len(self._abandoned) >= MOST_ABANDONED - 2 or not self._may_hire():
            return
        others = tuple(device for device in self._devices() if device.uuid != trial.device.uuid)
        trial.worker, trial.begun_s = self._hire(), now_s
        trial.worker.begin(ReadOrder(1, (trial.device.uuid,), others))

    def _held(self) -> str:
        """Return why no other device can be read either."""
        names = ", ".join(f"GPU {trial.device.index} ({trial.device.uuid})" for trial in self._hung.values())
        return f"the driver answers for no GPU: a call about {names} hangs, and the driver's lock is held"

    def _fault(self, uuid: str, fault: str, failure: ReadFailure) -> DeviceSample:
        return DeviceSample(uuid, self._clock.now(), fault=fault, failure=failure)


def by_processes(clock: SystemClock, labels: Mapping[str, str] | None = None) -> PatientReader:
    """Return a reader of this host's drivers, in processes, the first of which is starting."""
    reader = PatientReader(lambda: ProcessWorker(clock.boot_at, labels or {}), clock)
    reader.prepare()
    return reader


def by_threads(source: Source, clock: Clock, *, hang_s: float = HANG_S) -> PatientReader:
    """Return a reader of a source in this process, for devices that no driver stands behind."""
    return PatientReader(lambda: ThreadWorker(source), clock, hang_s=hang_s)


def _places(device: Device) -> tuple[str, ...]:
    return (device.uuid, *(part.uuid for part in device.partitions))
