"""The sampler of one node: asks the source on a thread of its own, and passes on the results."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from corral.clock import Clock
from corral.config import Settings
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.devices.vitals import ReadFailure
from corral.core.model.errors import BackendFailed
from corral.host.telemetry.attribution import Attribution
from corral.host.telemetry.driver_errors import DriverErrors, OpenLog
from corral.host.telemetry.host import host_node
from corral.host.telemetry.reading.patient_reader import PatientReader

logger = logging.getLogger(__name__)

_FIRST_LOOK_S = 10.0
"""The longest wait at a node's start for the driver's first answer: before that the node has no devices."""

Listener = Callable[[Node | None, Sequence[DeviceSample]], None]
"""Receives the inventory (None if unchanged) and a sample of each device; called after every pass."""


class Sampler:
    """Samples all devices of this host every `settings.sample_interval_s`, and calls the `listener`.

    `arrange` converts the source's node to the node that the site offers: how devices are shared, with slices as
    devices. The processes of the samples have their users and jobs, and errors of the driver the jobs that met them:
    the kernel's log by `open_log` names their processes. If the driver hangs for all devices, every device has
    a fault from `settings.stale_sample_s` after its last sample until the driver answers again. `no_docker` returns why
    no container can run here, None if one can.
    """

    def __init__(
        self,
        reader: PatientReader,
        clock: Clock,
        settings: Settings,
        *,
        listener: Listener,
        attribution: Attribution | None = None,
        open_log: OpenLog = lambda: None,
        arrange: Callable[[Node], Node] = lambda node: node,
        no_docker: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._interval_s = settings.sample_interval_s
        self._listener = listener
        self._attribution = attribution or Attribution(clock)
        self._errors = DriverErrors(open_log, self._attribution.job_of)
        self._arrange = arrange
        self._no_docker = no_docker
        self._patience_s = settings.stale_sample_s - settings.sample_interval_s
        self._attributing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._logged: str | None = None
        self._found: Node | None = None
        self._devices: tuple[Device, ...] = ()
        self._uuids: tuple[str, ...] = ()

    def start(self) -> None:
        """Sample once, so that the devices are known on return, then continue in a thread."""
        self._look(min(_FIRST_LOOK_S, self._patience_s))
        self._thread.start()

    def close(self) -> None:
        """Stop sampling; a hanging driver call is abandoned."""
        self._stopping.set()
        self._reader.close()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)
        with self._attributing:
            self._errors.close()

    def refresh(self, uuids: Sequence[str], timeout_s: float) -> tuple[DeviceSample, ...]:
        """Sample these devices now. A device that is unknown or does not answer in time has a fault."""
        known = [uuid for uuid in uuids if uuid in self._uuids]
        try:
            samples = self._reader.read(timeout_s, known).samples if known else ()
        except Exception as error:
            samples = self._failed(known, error)
        unknown = [uuid for uuid in uuids if uuid not in known]
        return (*self._attributed(samples), *self._at_fault(unknown, "there is no such device on this machine"))

    def driver_log(self, uuid: str) -> tuple[str, ...] | None:
        """Return the last lines of the driver about a device in the kernel's log; None if the log cannot be read."""
        with self._attributing:
            return self._errors.logged(uuid)

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            due = max(due + self._interval_s, time.monotonic())
            if self._stopping.wait(due - time.monotonic()):
                return
            self._look(self._patience_s)

    def _look(self, timeout_s: float) -> None:
        """Sample all devices once."""
        node: Node | None
        try:
            node, samples = self._reader.read(timeout_s)
        except Exception as error:
            node, samples = None, self._failed(self._uuids, error)
        changed = self._take(node)
        known = [sample for sample in samples if sample.uuid in self._uuids]
        found = self._attributed(known)
        if not self._stopping.is_set():
            self._listener(changed, found)

    def _take(self, node: Node | None) -> Node | None:
        """Store the inventory. Return the node that the site offers, None if nothing has changed.

        A host whose driver never answered has no devices, and CPU jobs can run there.
        """
        if node is None:
            node = self._found or host_node()
        # Docker is installed, removed, started and stopped while an agent runs.
        node = replace(node, no_docker=self._no_docker())
        if node == self._found:
            return None
        self._found = node
        arranged = self._arrange(node)
        self._devices = arranged.devices
        self._uuids = tuple(device.uuid for device in arranged.devices)
        return arranged

    def _attributed(self, samples: Sequence[DeviceSample]) -> tuple[DeviceSample, ...]:
        with self._attributing:
            return self._errors.complete(self._attribution.attribute(samples), self._devices)

    def _failed(self, uuids: Sequence[str], error: Exception) -> tuple[DeviceSample, ...]:
        if not isinstance(error, BackendFailed) and repr(error) != self._logged:
            self._logged = repr(error)
            logger.error("sampling failed", exc_info=error)
        return self._at_fault(uuids, str(error) if isinstance(error, BackendFailed) else f"sampling failed: {error}")

    def _at_fault(self, uuids: Sequence[str], fault: str) -> tuple[DeviceSample, ...]:
        taken_at = self._clock.now()
        return tuple(DeviceSample(uuid, taken_at, fault=fault, failure=ReadFailure.DRIVER) for uuid in uuids)
