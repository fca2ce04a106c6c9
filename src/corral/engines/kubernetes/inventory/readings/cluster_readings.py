"""Reads the GPUs of a cluster: from a Prometheus, from each node's dcgm-exporter, or by nvidia-smi in pods."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from corral.core.model.errors import CorralError
from corral.core.model.placing.placement_rules import Labels
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.cluster.objects import mapping, owner
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.inventory.readings.dcgm_text import (
    FIELDS,
    query_of,
    query_over_time,
    readings_of_exporter,
    readings_of_queries,
    readings_over_time,
)
from corral.engines.kubernetes.inventory.readings.gpu_reading import GpuReading
from corral.engines.kubernetes.inventory.readings.nvidia_smi_csv import COMMAND, readings_of_nvidia_smi
from corral.engines.kubernetes.inventory.readings.prometheus import ask_prometheus

EXPORTER_LABELS = ("app.kubernetes.io/name=dcgm-exporter", "app in (dcgm-exporter,nvidia-dcgm-exporter)")
"""Labels of the dcgm-exporter pods, by its own chart, and by other charts and NVIDIA's operator."""

EXPORTER_TAGS = frozenset(
    [("app.kubernetes.io/name", "dcgm-exporter"), ("app", "dcgm-exporter"), ("app", "nvidia-dcgm-exporter")]
)
"""The labels of dcgm-exporter pods, as single pairs."""

EXPORTER_PORT = 9400
READ_S = 5.0
"""A source without an answer after this time has no readings this time."""

P = TypeVar("P")
T = TypeVar("T")

_AT_ONCE = 16
_OLDEST_S = 120
"""The largest age of values. Prometheus gives values up to five minutes old by default; old versions ignore the
parameter.
"""


@dataclass(frozen=True, slots=True)
class ReadingsFound:
    """The result of a round.

    Attributes:
        by_node: readings by node.
        remarks: why some nodes have no readings, in sentences.
        partial: nodes for which only GPUs of pods are visible.
        failed: nodes whose exporters did not answer, or not in time.
    """

    by_node: Mapping[str, tuple[GpuReading, ...]]
    remarks: tuple[str, ...] = ()
    partial: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReadingSources:
    """The sources of readings beside each node's dcgm-exporter.

    Attributes:
        prometheus_url: a Prometheus that scrapes the exporters, which is asked first.
        exec_nvidia_smi: whether `nvidia-smi` may be run in pods with GPUs, on nodes that no other source knows.
        window_s: the seconds over which Prometheus takes the mean of each value; 0 is the last value.
    """

    prometheus_url: str | None = None
    exec_nvidia_smi: bool = False
    window_s: int = 0


EXPORTERS_ALONE = ReadingSources()


class GpuContainer(NamedTuple):
    """A container that runs in a pod with GPUs, and its node."""

    node: str
    namespace: str
    pod: str
    container: str


def read_gpus(
    cluster: Cluster,
    hostnames: Mapping[str, str],
    sources: ReadingSources = EXPORTERS_ALONE,
    containers: Iterable[GpuContainer] = (),
    *,
    exporters: Mapping[str, PodName] | None = None,
    timeout_s: float = READ_S,
    together_s: float = READ_S,
) -> ReadingsFound:
    """Return the current readings of the GPUs of these nodes. A source that fails gives a remark, no error.

    Args:
        cluster: the cluster; its exporters and pods are asked through the API server.
        hostnames: the nodes by every name that they have: their own, and their hostname label.
        sources: the other sources.
        containers: the containers of pods with GPUs, for `nvidia-smi`.
        exporters: the exporter pods that may be asked, by node; None finds them by their labels.
        timeout_s: the time limit of each answer.
        together_s: the time limit of all exporters together, and of all containers together.
    """
    remarks: list[str] = []
    found: dict[str, tuple[GpuReading, ...]] = {}
    if sources.window_s and sources.prometheus_url is None:
        remarks.append("only a Prometheus knows the use of GPUs over time, and none is named: their use now counts")
    if sources.prometheus_url is not None:
        try:
            found = _from_prometheus(sources.prometheus_url, hostnames, timeout_s, sources.window_s)
        except CorralError as error:
            remarks.append(str(error))
    missing = set(hostnames.values()) - found.keys()
    failed: frozenset[str] = frozenset()
    if missing:
        try:
            asked = find_exporters(cluster, timeout_s) if exporters is None else exporters
            asked = {node: pod for node, pod in asked.items() if node in missing}
            told, denied = _from_exporters(cluster, asked, timeout_s, together_s)
            found, failed = found | told, frozenset(asked.keys() - told.keys())
            if denied is not None and not told:
                raise denied
        except CorralError as error:
            remarks.append(f"dcgm-exporters are not read: {error}")
    seen: dict[str, tuple[GpuReading, ...]] = {}
    if sources.exec_nvidia_smi:
        try:
            unread = missing - found.keys()
            asking = partial(_run_nvidia_smi, cluster, timeout_s=timeout_s)
            seen = _from_pods(asking, [one for one in containers if one.node in unread], together_s)
        except CorralError as error:
            remarks.append(f"nvidia-smi is not run in pods: {error}")
    return ReadingsFound(found | seen, tuple(remarks), frozenset(seen), failed - seen.keys())


def every_name(nodes: Sequence[NodeFacts]) -> dict[str, str]:
    """Return the node names by hostname label and by name. The name wins if it is another node's hostname."""
    return {node.hostname: node.name for node in nodes} | {node.name: node.name for node in nodes}


def is_exporter(labels: Labels) -> bool:
    """Return whether a pod with these labels is a dcgm-exporter."""
    return not EXPORTER_TAGS.isdisjoint(labels)


def find_exporters(cluster: Cluster, timeout_s: float = READ_S) -> dict[str, PodName]:
    """Return the running exporter pod of each node that has one. Raises CorralError, such as MissingRight.

    It must belong to a DaemonSet: any pod can have any label.
    """
    return {
        str(node): (str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"]))
        for labels in EXPORTER_LABELS
        for pod in cluster.list(PODS, Selection(labels=labels), timeout_s=timeout_s)
        if (node := (pod.get("spec") or {}).get("nodeName"))
        and (pod.get("status") or {}).get("phase") == "Running"
        and _is_of_daemon_set(pod)
    }


def _is_of_daemon_set(pod: Mapping[str, Any]) -> bool:
    found = owner(mapping(pod.get("metadata")))
    return found is not None and found.kind == "DaemonSet"


def _from_prometheus(
    url: str, hostnames: Mapping[str, str], timeout_s: float, window_s: int
) -> dict[str, tuple[GpuReading, ...]]:
    # The fields are requested one after another: for 40,000 GPUs an answer is 10 MB, and needs several times that in
    # memory.
    lookback = f"{_OLDEST_S}s"
    told = readings_of_queries(
        (field, ask_prometheus(url, {"query": query_of(field, window_s), "lookback_delta": lookback}, timeout_s))
        for field in FIELDS
    )
    return {hostnames[name]: gpus for name, gpus in told.items() if name in hostnames}


def scraped_between(
    url: str, labels: Mapping[str, str], since: float, until: float, timeout_s: float
) -> list[tuple[float, dict[str, tuple[GpuReading, ...]]]]:
    """Return each scrape between two times (Unix seconds) of the series with these labels: its time, GPUs by node."""
    query = query_over_time(labels, math.ceil(until - since))
    answer = ask_prometheus(url, {"query": query, "time": f"{until:.3f}"}, timeout_s)
    return [(at, found) for at, found in readings_over_time(answer) if since < at <= until]


def _from_exporters(
    cluster: Cluster, asked: Mapping[str, PodName], timeout_s: float, together_s: float
) -> tuple[dict[str, tuple[GpuReading, ...]], MissingRight | None]:
    """Return the readings by node, and the last error of rights. One exporter that refuses does not stop the others."""
    told: dict[str, tuple[GpuReading, ...]] = {}
    denied: MissingRight | None = None
    read = partial(_read_exporter, cluster, timeout_s=timeout_s)
    for (node, _), answer in _asked_at_once(read, list(asked.items()), together_s):
        if isinstance(answer, MissingRight):
            denied = answer
        elif answer:
            told[node] = answer
    return told, denied


def _from_pods(
    ask: Callable[[GpuContainer], str], containers: Sequence[GpuContainer], together_s: float
) -> dict[str, tuple[GpuReading, ...]]:
    texts: dict[str, list[tuple[PodName, str]]] = {}
    for place, text in _asked_at_once(ask, containers, together_s):
        texts.setdefault(place.node, []).append(((place.namespace, place.pod), text))
    return {node: gpus for node, told in texts.items() if (gpus := readings_of_nvidia_smi(told))}


def _asked_at_once(ask: Callable[[P], T], places: Sequence[P], timeout_s: float) -> Iterator[tuple[P, T]]:
    """Yield the answers that come in time. Raises the errors of `ask`."""
    if not places:
        return
    deadline_s = time.monotonic() + timeout_s
    pool = ThreadPoolExecutor(min(_AT_ONCE, len(places)), thread_name_prefix="gpu-readings")
    try:
        asked = [(place, pool.submit(ask, place)) for place in places]
        for place, answer in asked:
            with suppress(TookTooLong):
                yield place, answer.result(max(0.0, deadline_s - time.monotonic()))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _run_nvidia_smi(cluster: Cluster, place: GpuContainer, *, timeout_s: float) -> str:
    try:
        ran = cluster.run_in_pod(place.pod, place.namespace, place.container, COMMAND, timeout_s=timeout_s)
    except MissingRight:
        raise
    except CorralError:
        return ""
    return ran.stdout.decode("utf-8", "replace") if ran.exit_code == 0 else ""


def _read_exporter(
    cluster: Cluster, place: tuple[str, PodName], *, timeout_s: float
) -> tuple[GpuReading, ...] | MissingRight:
    _, (namespace, name) = place
    try:
        text = cluster.read_from_pod(name, namespace, EXPORTER_PORT, "metrics", timeout_s=timeout_s)
    except MissingRight as error:
        return error
    except CorralError:
        return ()  # an exporter that does not answer leaves its node without readings
    return readings_of_exporter(text)
