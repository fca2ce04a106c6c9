"""The node as its agent knows it: the drivers' devices and samples, and what the kubelet has given to whom."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import corral
from corral.clock import SystemClock, boot_id
from corral.config import Settings
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.errors import BackendFailed
from corral.core.sharing.arrange import Arrangement
from corral.engines.kubernetes.agent.agent_report import (
    PROTOCOL,
    REPORT_EVERY_S,
    AgentReport,
    GivenDevices,
    GivenShare,
    ServedResource,
)
from corral.engines.kubernetes.agent.plugin.offers import SeenDevices, uuid_of
from corral.host.telemetry.attribution import Attribution
from corral.host.telemetry.discover import discover
from corral.host.telemetry.kernel_log import open_kernel_log
from corral.host.telemetry.reading.patient_reader import by_processes, by_threads
from corral.host.telemetry.sampler import Sampler

log = logging.getLogger(__name__)

KUBELET_DIR = Path("/var/lib/kubelet")

KubeletState = tuple[tuple[GivenDevices, ...] | None, tuple[ServedResource, ...]]
"""The devices that the kubelet has given, None if it does not tell, and the resources that plugins serve."""


class OwnNode:
    """Samples the devices of this host, by the same code as any agent of Corral.

    `mock` is a file with mock devices. `arrangement` says how the site shares the devices.
    """

    def __init__(
        self,
        name: str,
        clock: SystemClock,
        *,
        mock: Path | None,
        kubelet_dir: Path,
        arrangement: Arrangement,
    ) -> None:
        self._name = name
        self._clock = clock
        self._arrangement = arrangement
        self._told: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._node: Node | None = None
        self._samples: tuple[DeviceSample, ...] = ()
        self._kubelet = _kubelet_of(kubelet_dir / "pod-resources" / "kubelet.sock")
        reader = by_processes(clock) if mock is None else by_threads(discover(clock, mock=mock), clock)
        self._sampler = Sampler(
            reader,
            clock,
            Settings(sample_interval_s=REPORT_EVERY_S),
            listener=self._sampled,
            attribution=Attribution(clock),
            open_log=open_kernel_log if mock is None else lambda: None,
            arrange=self._arranged,
        )

    def start(self) -> None:
        """Sample once, so that the devices are known on return, if their driver answers, and go on in a thread."""
        self._sampler.start()

    def close(self) -> None:
        """Stop sampling."""
        self._sampler.close()

    def seen(self) -> SeenDevices | None:
        """Return the devices as they were last read; None before."""
        with self._lock:
            node, samples = self._node, self._samples
        return None if node is None else SeenDevices(node, {sample.uuid: sample for sample in samples})

    def report(self, shares: tuple[GivenShare, ...] = (), own: tuple[ServedResource, ...] = ()) -> AgentReport:
        """Return the present state of the node.

        `shares` are the parts of devices that the agent's plugin gave, and `own` the resources of which it knows who
        serves them.
        """
        given, served = self._kubelet()
        known = {one.resource for one in own}
        served = (*own, *(one for one in served if one.resource not in known))
        with self._lock:
            node, samples = self._node, self._samples
        assert node is not None, "the sampler has looked once, as it was started"
        # Ids of other plugins may be many and long, and a device that pods have may be gone: a server would refuse the
        # whole report for them.
        here = {device.uuid for device in node.devices}
        shares = tuple(one for one in shares if one.device_uuid in here)
        given = None if given is None else tuple(_of_devices(given, here))
        return AgentReport(PROTOCOL, corral.__version__, self._clock.now(), node, samples, given, shares, served)

    def _sampled(self, node: Node | None, samples: Sequence[DeviceSample]) -> None:
        with self._lock:
            self._node = node or self._node
            # Devices may have come or gone since the samples were taken.
            known = {device.uuid for device in self._node.devices} if self._node is not None else set()
            self._samples = tuple(sample for sample in samples if sample.uuid in known)

    def _arranged(self, found: Node) -> Node:
        told = self._arrangement.refusals(found)
        for why in told if told != self._told else ():
            log.warning("%s", why)
        self._told = told
        return replace(self._arrangement.node(found), name=self._name, boot_id=boot_id())


def _of_devices(given: Iterable[GivenDevices], here: Collection[str]) -> Iterator[GivenDevices]:
    """Yield what was given of these devices, or of parts of them."""
    for one in given:
        if ids := tuple(each for each in one.device_ids if uuid_of(each) in here):
            yield one if len(ids) == len(one.device_ids) else replace(one, device_ids=ids)


def _kubelet_of(socket: Path) -> Callable[[], KubeletState]:
    """Return the function that asks the kubelet. Without the packages of the extra `kubelet` it is not asked."""
    try:
        from corral.engines.kubernetes.agent.kubelet_api.pod_resources import allocatable_devices, given_devices
    except ImportError as error:
        log.warning("the kubelet is not asked which pod has which device: %s", error)
        return lambda: (None, ())
    failure: list[str | None] = [None]

    def ask() -> KubeletState:
        try:
            if not socket.exists():
                raise BackendFailed(f"there is no {socket}; mount the kubelet's directory pod-resources")
            given, allocatable = given_devices(socket), allocatable_devices(socket)
        except BackendFailed as error:
            if str(error) != failure[0]:
                log.warning("it is not known which pod has which device: %s", error)
            failure[0] = str(error)
            return None, ()
        failure[0] = None
        # A kubelet before 1.21 tells what it has given, and not what it could give.
        resources = {one.resource for one in given} if allocatable is None else allocatable.keys()
        return given, tuple(ServedResource(resource, None) for resource in sorted(resources))

    return ask
