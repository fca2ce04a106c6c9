"""The sampler: asks the source in a thread of its own, and tells the ledger when something changed that matters."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from corral.clock import Clock
from corral.config import Settings
from corral.model.device import Device, DeviceCondition, DeviceSample, Node
from corral.model.errors import BackendFailed
from corral.model.fact import ConditionObserved, NodeObserved, Observation
from corral.model.view import View
from corral.ports.telemetry import Source
from corral.telemetry.attribution import SERVICE, Attribution
from corral.telemetry.condition import Standing, is_news, judge
from corral.telemetry.driver_thread import DriverThread
from corral.telemetry.host import host_node
from corral.telemetry.state_log import StateLog

logger = logging.getLogger(__name__)

_FIRST_LOOK_S = 10.0
"""A server waits so long at its start for the driver's first answer, for without it there are no devices to ask for."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one pass brought: the inventory, None when it could not be read, and the samples."""

    node: Node | None
    samples: tuple[DeviceSample, ...]


class Sampler:
    """Implements `corral.ports.telemetry.Telemetry`: samples all devices every `settings.sample_interval_s`.

    An inventory that changed and conditions that changed in a way that matters go to `observe`, which must return at
    once; small moves of utilisation and memory do not. `arrange` makes of what the source found the node that the site
    hands out: how devices are shared, and their slices as devices. When the driver hangs, every device is unreadable
    from `settings.stale_sample_s` after its last sample on, until the driver answers again.
    """

    def __init__(
        self,
        source: Source,
        clock: Clock,
        settings: Settings,
        *,
        view: Callable[[], View],
        observe: Callable[[Sequence[Observation]], None],
        attribution: Attribution | None = None,
        arrange: Callable[[Node], Node] = lambda node: node,
    ) -> None:
        self._source = source
        self._clock = clock
        self._settings = settings
        self._view = view
        self._observe = observe
        self._attribution = attribution or Attribution(clock)
        self._arrange = arrange
        self._patience_s = settings.stale_sample_s - settings.sample_interval_s
        self._driver = DriverThread(self._patience_s)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._logged: str | None = None
        self._found: Node | None = None
        self._devices: dict[str, Device] = {}
        self._samples: dict[str, DeviceSample] = {}
        self._standings: dict[str, Standing] = {}
        self._told: dict[str, DeviceCondition] = {}
        self._state_log = StateLog()

    def start(self) -> None:
        """Look once, so that the server knows its devices when it opens, then go on in a thread."""
        self._look(min(_FIRST_LOOK_S, self._patience_s))
        self._thread.start()

    def stop(self) -> None:
        """End the sampling; a driver call that hangs is left behind."""
        self._stopping.set()
        self._driver.close()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def latest(self) -> dict[str, DeviceSample]:
        """The last sample of each device by UUID, with its processes joined to users and jobs."""
        with self._lock:
            return dict(self._samples)

    def refresh(self, uuids: Sequence[str], timeout_s: float) -> tuple[Observation, ...]:
        """Sample these devices now. The conditions are for the caller to hand to the ledger.

        A device that does not answer in time, or is not known, comes back unreadable.
        """
        view = self._view()
        try:
            samples = self._driver.run(lambda: self._source.sample(list(uuids)), timeout_s)
        except Exception as error:
            samples = self._failed(uuids, error)
        with self._lock:
            self._record(samples, view)
            conditions = [
                self._standings[uuid].condition
                if uuid in self._standings
                else DeviceCondition(uuid, unreadable="there is no such device on this machine")
                for uuid in uuids
            ]
            for uuid in uuids:
                # When the caller tells the ledger is not known: the next pass does it again, so the newest word lasts.
                self._told.pop(uuid, None)
        return tuple(ConditionObserved(condition) for condition in conditions)

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            due = max(due + self._settings.sample_interval_s, time.monotonic())
            if self._stopping.wait(due - time.monotonic()):
                return
            self._look(self._patience_s)

    def _look(self, timeout_s: float) -> None:
        """One pass over all devices: read, judge, tell what is news."""
        view = self._view()
        try:
            reading = self._driver.run(self._read, timeout_s)
        except Exception as error:
            reading = _Reading(None, self._failed(tuple(self._devices), error))
        with self._lock:
            observations: list[Observation] = list(self._take(reading.node))
            self._record(reading.samples, view)
            observations += self._news()
            if observations and not self._stopping.is_set():
                self._observe(observations)
            devices = self._devices
            conditions = {uuid: standing.condition for uuid, standing in self._standings.items()}
        self._state_log.look(devices, conditions, self._clock.monotonic())

    def _read(self) -> _Reading:
        try:
            node = self._source.node()
        except BackendFailed:
            node = None
        return _Reading(node, self._source.sample())

    def _failed(self, uuids: Sequence[str], error: Exception) -> tuple[DeviceSample, ...]:
        if not isinstance(error, BackendFailed) and repr(error) != self._logged:
            self._logged = repr(error)
            logger.error("sampling failed", exc_info=error)
        fault = str(error) if isinstance(error, BackendFailed) else f"sampling it failed: {error}"
        taken_at = self._clock.now()
        return tuple(DeviceSample(uuid, taken_at, fault=fault) for uuid in uuids)

    def _take(self, node: Node | None) -> Sequence[Observation]:
        """Take over the inventory; a host whose driver never answered has no devices, and CPU jobs can run there."""
        if node is None:
            node = self._found or host_node()
        if node == self._found:
            return ()
        self._found = node
        node = self._arrange(node)
        self._devices = {device.uuid: device for device in node.devices}
        for known in (self._samples, self._standings, self._told):
            for uuid in [uuid for uuid in known if uuid not in self._devices]:
                del known[uuid]
        return (NodeObserved(node),)

    def _record(self, samples: Sequence[DeviceSample], view_before: View) -> None:
        """Judge the samples by who held the devices, before they were taken or now: a job may have come in between."""
        view, now_s = self._view(), self._clock.monotonic()
        known = [sample for sample in samples if sample.uuid in self._devices]
        for sample in self._attribution.attribute(known):
            device, before = self._devices[sample.uuid], self._standings.get(sample.uuid)
            places = (sample.uuid, *(part.uuid for part in device.partitions))
            jobs = {job for uuid in places for moment in (view_before, view) for job in _jobs_on(moment, uuid)}
            jobs.add(SERVICE)
            self._samples[sample.uuid] = sample
            self._standings[sample.uuid] = judge(device, sample, before, jobs, self._settings, now_s=now_s)

    def _news(self) -> list[Observation]:
        news: list[Observation] = []
        for uuid, standing in self._standings.items():
            if is_news(self._told.get(uuid), standing.condition, self._devices[uuid].memory_mib):
                self._told[uuid] = standing.condition
                news.append(ConditionObserved(standing.condition))
        return news


def _jobs_on(view: View, uuid: str) -> frozenset[str]:
    return frozenset(view.allocations[allocation_id].job_id for allocation_id in view.holders.get(uuid, ()))
