"""The GPUs of a model service, as a Prometheus, the exporters of its nodes, or its pods themselves tell of them."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from corral.core.model.devices.device import availability_score
from corral.core.model.errors import CorralError
from corral.core.model.placing.allocation import ChosenDevice, GpuInfo
from corral.core.ports.monitoring import MonitoredDevice
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels, gpus_of
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.cluster.pod_facts import PodFacts
from corral.engines.kubernetes.cluster.resource import NODES
from corral.engines.kubernetes.inventory.cluster_gpus import gpu_containers
from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.inventory.readings.cluster_readings import (
    READ_S,
    ReadingSources,
    every_name,
    find_exporters,
    read_gpus,
    scraped_between,
)
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.features.history.recording.series import SERIES, DeviceReadings, covered_s
from corral.features.tuner.measuring.gpu_sampler import GpuSampler, ReadGpus, Values
from corral.wire import to_plain

log = logging.getLogger("corral.tuner")

EVERY_S = 5.0
"""The interval at which exporters and pods are asked. An exporter measures every 30 s by default, or more often."""

LOOK_BACK_S = 120.0
"""How long before a window scrapes are looked for, to know their interval."""

_POD_LABELS = (("exported_namespace", "exported_pod"), ("namespace", "pod"))
"""A scrape that has labels `pod` of its own renames those of the exporter."""

_NODE_LABELS = ("node", "kubernetes_node", "hostname", "Hostname")


class OwnGpus(NamedTuple):
    """The pods of a service on one node: how many GPUs each has."""

    node: NodeFacts
    pods: Mapping[PodName, int]

    def of(self, gpus: Sequence[GpuReading]) -> tuple[GpuReading, ...]:
        """Return the readings of the pods' GPUs, () if it is not certain which these are.

        Readings name their pods, or need not where the pods have all GPUs of the node. Devices that are parts of a GPU
        have none: the readings are of whole GPUs.
        """
        labels, wanted = gpu_labels(self.node), sum(self.pods.values())
        if labels.profile is not None or labels.shared_by is not None:
            return ()
        own = tuple(gpu for gpu in gpus if gpu.pod in self.pods)
        if not own and len(gpus) == gpus_of(self.node.allocatable) == gpus_of(self.node.capacity):
            own = tuple(gpus)
        return own if len(own) == wanted else ()


class ServiceGpus:
    """Knows the readings of a service's GPUs in windows of the time from its construction to `close`.

    A Prometheus, where one is named, is asked for the scrapes within a window. Otherwise, and from the first window on
    of which it says nothing, exporters and pods are asked periodically.
    """

    def __init__(self, cluster: Cluster, sources: ReadingSources, pods: Callable[[], Iterable[PodFacts]]) -> None:
        """`pods` returns the current pods of the service."""
        self._cluster = cluster
        self._sources = sources
        self._pods = pods
        self._nodes: dict[str, NodeFacts] = {}
        self._exporters: Mapping[str, PodName] = {}
        self._looked_for: frozenset[str] = frozenset()
        self._said: set[str] = set()
        self._latest: Mapping[MonitoredDevice, GpuReading] = {}
        self._sampler: GpuSampler | None = None
        if sources.prometheus_url is None:
            self._sample()

    def readings(self, began_at: float, ended_at: float) -> ReadGpus:
        """Return the readings of each GPU between these times (Unix seconds), empty if they are not known."""
        if self._sources.prometheus_url is not None:
            if scraped := self._scraped(self._sources.prometheus_url, began_at, ended_at):
                return scraped
            self._sample()
        return {} if self._sampler is None else self._sampler.readings(began_at, ended_at)

    def now(self) -> Mapping[MonitoredDevice, GpuReading]:
        """Return the newest reading of each GPU, empty if they are not known, or not yet."""
        if self._sources.prometheus_url is not None:
            if self._sampler is None:
                # The pods may be others than before.
                self._latest = {}
            self.readings(time.time() - LOOK_BACK_S, time.time())
        return self._latest

    def close(self) -> None:
        """End its thread."""
        if self._sampler is not None:
            self._sampler.close()

    def _sample(self) -> None:
        if self._sampler is None:
            self._sampler = GpuSampler(self._read, EVERY_S)

    def _places(self) -> list[OwnGpus]:
        """Return the nodes of the service's pods. A node that may not be looked at is left out."""
        by_node: dict[str, dict[PodName, int]] = {}
        for pod in self._pods():
            if pod.node is not None and (gpus := gpus_of(pod.requests)):
                by_node.setdefault(pod.node, {})[pod.namespace, pod.name] = gpus
        return [OwnGpus(node, pods) for name, pods in by_node.items() if (node := self._node(name)) is not None]

    def _node(self, name: str) -> NodeFacts | None:
        if name not in self._nodes:
            try:
                # The node is listed, not read, because users that choose nodes may list them.
                (found,) = self._cluster.list(NODES, Selection(fields=f"metadata.name={name}"))
                self._nodes[name] = read_node(found)
            except (CorralError, ValueError) as error:
                self._say(f"the GPUs of node {name} are not read: {error}")
                return None
        return self._nodes[name]

    def _find_exporters(self, nodes: frozenset[str]) -> None:
        """Find the exporters of these nodes, once: a cluster has one on each of its nodes."""
        if nodes == self._looked_for:
            return
        found: Mapping[str, PodName] = {}
        try:
            found = find_exporters(self._cluster)
            self._looked_for = nodes
        except MissingRight as error:
            self._say(f"the exporters of the cluster are not read: {error}")
            self._looked_for = nodes
        except CorralError as error:
            self._say(f"the exporters of the cluster are not read: {error}")
        self._exporters = {node: pod for node, pod in found.items() if node in nodes}

    def _say(self, text: str) -> None:
        if text not in self._said:
            log.warning("%s", text)
        self._said.add(text)

    def _read(self) -> Mapping[MonitoredDevice, Values]:
        """Ask exporters and pods once."""
        places = self._places()
        self._find_exporters(frozenset(place.node.name for place in places))
        names = every_name([place.node for place in places])
        served = {name for place in places for name in place.pods}
        containers = gpu_containers(pod for pod in self._pods() if (pod.namespace, pod.name) in served)
        direct = ReadingSources(exec_nvidia_smi=self._sources.exec_nvidia_smi)
        found = read_gpus(self._cluster, names, direct, containers, exporters=self._exporters)
        for remark in found.remarks:
            self._say(remark)
        if found.failed:
            # An exporter that was replaced has another name.
            self._looked_for = frozenset()
        own = _own(places, found.by_node)
        if not own and direct.exec_nvidia_smi:
            own = _own(places, read_gpus(self._cluster, names, direct, containers, exporters={}).by_node)
        self._latest = own
        return {device: _values(gpu) for device, gpu in own.items()}

    def _scraped(self, url: str, began_at: float, ended_at: float) -> ReadGpus:
        places, found = self._places(), dict[MonitoredDevice, list[_Scraped]]()
        try:
            for place in places:
                for at, gpus in _scrapes(url, place, began_at - LOOK_BACK_S, ended_at):
                    for device, gpu in _own([place], {place.node.name: gpus}, several=len(places) > 1).items():
                        found.setdefault(device, []).append(_Scraped(at, gpu))
        except CorralError as error:
            self._say(str(error))
            return {}
        if found:
            self._latest = {device: read[-1].gpu for device, read in found.items()}
        within = {device: [one for one in _covering(read) if one.at > began_at] for device, read in found.items()}
        return {device: read for device, read in within.items() if read}


class _Scraped(NamedTuple):
    """A GPU at the time of a scrape (Unix seconds)."""

    at: float
    gpu: GpuReading


def _own(
    places: Sequence[OwnGpus], by_node: Mapping[str, Sequence[GpuReading]], *, several: bool | None = None
) -> dict[MonitoredDevice, GpuReading]:
    """Return the service's GPUs by their names: its indices, on `several` nodes "NODE:INDEX"."""
    several = len(places) > 1 if several is None else several
    return {
        _named(gpu, place.node, several=several): gpu
        for place in places
        for gpu in place.of(by_node.get(place.node.name, ()))
    }


def _scrapes(url: str, place: OwnGpus, since: float, until: float) -> list[tuple[float, tuple[GpuReading, ...]]]:
    """Return the scrapes of the pods' GPUs: of series that name the pods, otherwise of all series of the node."""
    for namespace_label, pod_label in _POD_LABELS:
        by_time: dict[float, list[GpuReading]] = {}
        for namespace, pod in place.pods:
            labels = {namespace_label: namespace, pod_label: pod}
            for at, by_node in scraped_between(url, labels, since, until, READ_S):
                by_time.setdefault(at, []).extend(gpu for gpus in by_node.values() for gpu in gpus)
        if by_time:
            return [(at, tuple(gpus)) for at, gpus in sorted(by_time.items())]
    for label in _NODE_LABELS:
        for name in every_name([place.node]):
            if found := scraped_between(url, {label: name}, since, until, READ_S):
                return [(at, tuple(gpu for gpus in by_node.values() for gpu in gpus)) for at, by_node in found]
    return []


def _covering(read: Sequence[_Scraped]) -> list[DeviceReadings]:
    """Return scrapes as readings, each of which covers the time since the one before, at most their usual interval."""
    times = [one.at for one in read]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    interval_s = median(gaps) if gaps else LOOK_BACK_S / 2
    before = [None, *times[:-1]]
    return [
        DeviceReadings(one.at, covered_s(one.at, earlier, interval_s), tuple(map(_values(one.gpu).get, SERIES)))
        for one, earlier in zip(read, before, strict=True)
    ]


def _named(gpu: GpuReading, node: NodeFacts, *, several: bool) -> MonitoredDevice:
    """Return the GPU, by its index on its node, on several nodes by "NODE:INDEX"."""
    labels = gpu_labels(node)
    label = f"{node.name}:{gpu.index}" if several else str(gpu.index)
    return MonitoredDevice(label, labels.product, labels.memory_mib or gpu.memory_total_mib)


def _values(gpu: GpuReading) -> Values:
    return {
        "utilization_pct": gpu.utilization_pct,
        "memory_used_mib": gpu.memory_used_mib,
        "temperature_c": gpu.temperature_c,
        "power_w": gpu.power_w,
        "sm_clock_mhz": gpu.sm_clock_mhz,
    }


def gpu_info_of_service(model: str | None, gpus: int, known: Mapping[MonitoredDevice, GpuReading]) -> dict[str, Any]:
    """Return the GPUs of a service in the form that autotuners use. `known` are those with readings, if any."""
    details = tuple(
        ChosenDevice(gpu.index, device.name or "", gpu.memory_free_mib, _whole(gpu.utilization_pct), _availability(gpu))
        for device, gpu in known.items()
    )
    inner = GpuInfo(gpus, tuple(gpu.index for gpu in known.values()), "kubernetes", details)
    return {
        "model": model,
        "count": gpus,
        "device_ids": [gpu.uuid for gpu in known.values() if gpu.uuid is not None],
        "world_size": gpus,
        "gpu_info": to_plain(inner),
    }


def _availability(gpu: GpuReading) -> float:
    return availability_score(gpu.memory_free_mib, gpu.memory_total_mib, _whole(gpu.utilization_pct))


def _whole(percent: float | None) -> int | None:
    return None if percent is None else round(percent)
