"""Changes of a node, stored until they are read. Long polls wait here for new changes."""

import threading
import uuid as uuids
from collections.abc import Sequence

from corral.clock import Clock
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.ports.node import News, ServiceLost


class NewsBuffer:
    """Collects changes from any thread for one reader, which may read the same changes twice.

    Every change has a number. Launches and services are kept until the reader names a later number. Of the inventory
    and of each device's samples, the newest is always kept.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoch = uuids.uuid4().hex
        self._changed = threading.Condition()
        self._sequence = 0
        self._closed = False
        self._node: tuple[int, Node] | None = None
        self._samples: dict[str, tuple[int, DeviceSample]] = {}
        self._launches: dict[str, int] = {}
        self._services_lost: dict[ServiceLost, int] = {}

    def inventory(self) -> Node | None:
        """The last reported inventory, None before the first sample."""
        return None if self._node is None else self._node[1]

    def sampled(self, node: Node | None, samples: Sequence[DeviceSample]) -> None:
        """Add the inventory (None: unchanged) and new samples. Implements `corral.host.telemetry.sampler.Listener`."""
        with self._changed:
            self._sequence += 1
            if node is not None:
                self._node = (self._sequence, node)
                known = {device.uuid for device in node.devices}
                self._samples = {uuid: each for uuid, each in self._samples.items() if uuid in known}
            self._samples.update({sample.uuid: (self._sequence, sample) for sample in samples})
            self._changed.notify_all()

    def launch_changed(self, launch_id: str) -> None:
        """Record that this launch has a new report."""
        with self._changed:
            self._sequence += 1
            self._launches[launch_id] = self._sequence
            self._changed.notify_all()

    def service_lost(self, lost: ServiceLost) -> None:
        """Record that the sharing service of a device has died."""
        with self._changed:
            self._sequence += 1
            self._services_lost[lost] = self._sequence
            self._changed.notify_all()

    def since(self, after: int, timeout_s: float) -> News:
        """Return all changes with a number above `after`. If there are none, wait for one until the time is up."""
        with self._changed:
            self._launches = {launch: number for launch, number in self._launches.items() if number > after}
            self._services_lost = {lost: number for lost, number in self._services_lost.items() if number > after}
            self._changed.wait_for(lambda: self._closed or self._sequence != after, timeout_s)
            node = self._node
            return News(
                self._sequence,
                self._epoch,
                self._clock.now(),
                node=None if node is None or node[0] <= after else node[1],
                samples=tuple(sample for number, sample in self._samples.values() if number > after),
                launches=tuple(self._launches),
                services_lost=tuple(self._services_lost),
            )

    def close(self) -> None:
        """Release waiting readers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
