"""The conditions of one node's devices by their samples, and the conditions that were reported to the ledger."""

from collections.abc import Sequence

from corral.config import Settings
from corral.core.model.devices.device import SERVICE, Device, DeviceCondition, DeviceSample, Node, Silence
from corral.core.model.fact import ConditionObserved
from corral.core.model.view import View
from corral.host.telemetry.device_condition import Standing, is_news, judge


class Standings:
    """The devices of one node. Not thread-safe.

    Attributes:
        devices: by UUID, including slices.
        samples: the last sample of each sampled device.
        metered: whether any device ever had a reading.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.devices: dict[str, Device] = {}
        self.samples: dict[str, DeviceSample] = {}
        self.metered = False
        self._standings: dict[str, Standing] = {}
        self._reported: dict[str, DeviceCondition] = {}

    def take(self, node: Node) -> None:
        """Store the inventory; the data of devices that no longer exist is deleted."""
        self.devices = {device.uuid: device for device in node.devices}
        for known in (self.samples, self._standings, self._reported):
            for uuid in [uuid for uuid in known if uuid not in self.devices]:
                del known[uuid]

    def record(self, samples: Sequence[DeviceSample], views: Sequence[View], now_s: float) -> None:
        """Judge the samples by the holders of the devices in any of `views`: a job may have started or ended in
        between.
        """
        for sample in samples:
            device = self.devices.get(sample.uuid)
            if device is None:
                continue
            places = (sample.uuid, *(part.uuid for part in device.partitions))
            jobs = {job for uuid in places for view in views for job in _jobs_on(view, uuid)}
            jobs.add(SERVICE)
            self.samples[sample.uuid] = sample
            self.metered = self.metered or sample.metered
            before = self._standings.get(sample.uuid)
            self._standings[sample.uuid] = judge(device, sample, before, jobs, self._settings, now_s=now_s)

    def conditions(self) -> dict[str, DeviceCondition]:
        """Return the condition of each device by its last sample."""
        return {uuid: standing.condition for uuid, standing in self._standings.items()}

    def condition(self, uuid: str, silence: Silence | None) -> DeviceCondition:
        """Return the condition of a device that the node has. While the node is silent, all its devices are
        unreadable.
        """
        standing = self._standings.get(uuid)
        if silence is None and standing is not None:
            return standing.condition
        since = None if standing is None else standing.condition.strangers_since
        reason = "not sampled yet" if silence is None else silence.reason
        ill_since = None if silence is None else silence.since
        return DeviceCondition(uuid, unreadable=reason, ill_since=ill_since, strangers_since=since)

    def news(self, silence: Silence | None) -> list[ConditionObserved]:
        """Return the conditions that differ noticeably from the reported ones, and mark them as reported."""
        news: list[ConditionObserved] = []
        for uuid in self._standings:
            condition = self.condition(uuid, silence)
            if is_news(self._reported.get(uuid), condition, self.devices[uuid].memory_mib):
                self._reported[uuid] = condition
                news.append(ConditionObserved(condition))
        return news

    def tell_again(self, uuid: str) -> None:
        """Report this device again with the next news: another part has its condition and may report it later."""
        self._reported.pop(uuid, None)


def _jobs_on(view: View, uuid: str) -> frozenset[str]:
    return frozenset(view.allocations[allocation_id].job_id for allocation_id in view.holders.get(uuid, ()))
