"""The GPUs of this host, read while a server on it is measured."""

import ipaddress
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

from corral.client import Client
from corral.core.model.errors import CorralError, Refused
from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.answers import GpuWindow
from corral.features.tuner.measuring.gpu_records import windows_of
from corral.features.tuner.measuring.gpu_sampler import GpuSampler, Values
from corral.gpu.reading import GPUInfo, Sight, see_through_server

log = logging.getLogger("corral.tuner")

EVERY_S = 1.0

Window = Callable[[float, float], Sequence[GpuWindow]]
"""Returns the readings of the GPUs between two times (Unix seconds), () if they are not known."""


@contextmanager
def watched_gpus(endpoint_url: str, gpu_indices: Sequence[int] | None) -> Iterator[Window]:
    """Watch the GPUs of this host with these indices, if the server at `endpoint_url` is on this host.

    A Corral server on this host has recorded them; otherwise the driver is read each second. The GPUs of a server
    elsewhere are not known: its indices mean other GPUs. Raises Refused for an index that no GPU of this host has.
    """
    if not gpu_indices or not is_here(endpoint_url):
        yield _unknown
        return
    wanted, sight = set(gpu_indices), Sight()
    try:
        recorded = see_through_server(sight.uuids)
    except Refused as refused:
        log.warning("the GPUs are not watched: %s", refused)
        yield _unknown
        return
    here = sight.look() if recorded is None else recorded
    if here is None:
        yield _unknown
        return
    _require(wanted, {gpu.index for gpu in here})
    if recorded is not None:
        with Client() as client:
            gpus = [gpu for gpu in recorded if gpu.index in wanted]
            yield lambda began_at, ended_at: _recorded(client, gpus, began_at, ended_at)
    else:
        with closing(GpuSampler(lambda: _readings(sight, wanted), EVERY_S)) as sampler:
            yield lambda *window: windows_of(sampler.readings(*window), window)


def _require(wanted: Set[int], here: Set[int]) -> None:
    if missing := wanted - here:
        raise Refused(
            f"gpu_indices: this host has no GPU {_listed(missing)}; its GPUs are {_listed(here)}", field="gpu_indices"
        )


def _listed(indices: Set[int]) -> str:
    return ", ".join(map(str, sorted(indices)))


def is_here(url: str) -> bool:
    """Return whether all addresses of the URL's host are this host's own."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return False
    return bool(found) and all(_is_own(family, address) for family, *_, address in found)


def _is_own(family: int, address: tuple[object, ...]) -> bool:
    if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        return True
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            # The port is chosen by the kernel. Only a host's own addresses can be bound.
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
    return True


def _unknown(began_at: float, ended_at: float) -> Sequence[GpuWindow]:
    return ()


def _recorded(client: Client, gpus: Sequence[GPUInfo], began_at: float, ended_at: float) -> Sequence[GpuWindow]:
    try:
        found = [(gpu, client.devices.window(gpu.uuid, began_at, ended_at).gpus) for gpu in gpus]
    except CorralError as error:
        log.warning("the server does not tell of its GPUs: %s", error)
        return ()
    return [replace(window, **_named(gpu)._asdict()) for gpu, windows in found for window in windows]


def _readings(sight: Sight, wanted: set[int]) -> Mapping[MonitoredDevice, Values]:
    return {_named(gpu): _values(gpu) for gpu in sight.look() or () if gpu.index in wanted}


def _named(gpu: GPUInfo) -> MonitoredDevice:
    return MonitoredDevice(str(gpu.index), gpu.name, gpu.memory_total_mb)


def _values(gpu: GPUInfo) -> Values:
    return {
        "utilization_pct": gpu.utilization_percent,
        "memory_used_mib": gpu.memory_used_mb,
        "temperature_c": gpu.temperature_c,
        "power_w": gpu.power_draw_w,
    }
