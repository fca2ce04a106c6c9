"""Reads GPU readings from answers of dcgm-exporter (Prometheus' text format), or of a Prometheus that scrapes it.
Pure.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from corral.engines.kubernetes.inventory.occupants import PodName
from corral.engines.kubernetes.inventory.readings.gpu_reading import MOST_GPUS, GpuReading, measured

UTILIZATION, USED, FREE, RESERVED, TEMPERATURE, POWER, CLOCK = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
)
FIELDS = (UTILIZATION, USED, FREE, RESERVED, TEMPERATURE, POWER, CLOCK)
"""The fields that are read: percent, MiB three times, degrees Celsius, watts, MHz."""

_NODE_LABELS = ("node", "kubernetes_node", "hostname", "Hostname")
"""Labels that name the node: first those that a scrape adds, then those of the exporter."""

_GPU_LABELS = (*_NODE_LABELS, *("gpu", "GPU_I_ID", "UUID", "uuid"))
_LABELS_READ = (*_GPU_LABELS, *("exported_namespace", "exported_pod", "namespace", "pod"))

_LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}

Labels = Mapping[str, str]


class _Sample(NamedTuple):
    node: str
    field: str
    labels: Labels
    value: str


def readings_of_exporter(text: str) -> tuple[GpuReading, ...]:
    """Return the GPUs of the one node whose exporter answered with `text`. Invalid lines are skipped."""
    return tuple(_readings(_samples_of_exporter(text)).get("", {}).values())


def query_of(field: str, window_s: int = 0) -> str:
    """Return the Prometheus query for one field of all GPUs, without the labels that are not read.

    With `window_s` it is for the mean of all values in these seconds. They name no pods: a GPU may have had several.
    """
    if not window_s:
        return f"max by ({', '.join(_LABELS_READ)}) ({field})"
    total, count = (
        f"sum by ({', '.join(_GPU_LABELS)}) ({of}_over_time({field}[{window_s}s]))" for of in ("sum", "count")
    )
    return f"{total} / {count}"


def readings_of_queries(answers: Iterable[tuple[str, Any]]) -> dict[str, tuple[GpuReading, ...]]:
    """Return the GPUs by node name, from pairs of a field and Prometheus' answer to `query_of` it.

    Series without a node are left out. Anything that is not a valid answer gives nothing.
    """
    samples = (sample for field, answer in answers for sample in _samples_of_query(field, answer))
    return {node: tuple(gpus.values()) for node, gpus in _readings(samples).items()}


def query_over_time(labels: Labels, seconds: int) -> str:
    """Return the Prometheus query for all values of all fields in the last seconds, of the series with these labels."""
    matched = "".join(f",{name}={json.dumps(value)}" for name, value in labels.items())
    return f'{{__name__=~"{"|".join(FIELDS)}"{matched}}}[{seconds}s]'


def readings_over_time(answer: Any) -> list[tuple[float, dict[str, tuple[GpuReading, ...]]]]:
    """Return the GPUs by node name at each time (Unix seconds) of Prometheus' answer to `query_over_time`.

    Of two series of the same value at the same time the one with more values counts, such as one of two scrapes.
    """
    kept: dict[tuple[object, ...], dict[float, _Sample]] = {}
    for samples in sorted(_samples_over_time(answer), key=lambda samples: (-len(samples), repr(samples))):
        first = next(iter(samples.values()))
        key = first.node, first.labels.get("gpu"), first.labels.get("GPU_I_ID"), _pod_of(first.labels), first.field
        known = kept.setdefault(key, {})
        if not known or max(samples) < min(known) or min(samples) > max(known):
            known |= samples
    by_time: dict[float, list[_Sample]] = {}
    for series in kept.values():
        for at, sample in series.items():
            by_time.setdefault(at, []).append(sample)
    return [
        (at, {node: tuple(gpus.values()) for node, gpus in _readings(by_time[at]).items()}) for at in sorted(by_time)
    ]


def _samples_over_time(answer: Any) -> Iterator[dict[float, _Sample]]:
    """Yield the values of each series by their times."""
    for row in _rows(answer):
        values, labels = row.get("values"), _texts(row.get("metric"))
        node, field = _node_of(labels), labels.get("__name__", "")
        found = {
            at: _Sample(node, field, labels, str(pair[1]))
            for pair in (values if isinstance(values, list) else ())
            if isinstance(pair, list) and len(pair) == 2 and (at := _time_of(pair[0])) is not None
        }
        if found and node and field in FIELDS:
            yield found


def _time_of(value: Any) -> float | None:
    """Return Unix seconds, or None for what is no time."""
    try:
        at = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return at if math.isfinite(at) else None


def _samples_of_query(field: str, answer: Any) -> Iterator[_Sample]:
    for row in _rows(answer):
        told, value = _texts(row.get("metric")), row.get("value")
        if not isinstance(value, list) or len(value) != 2 or told.get("__name__", field) != field:
            continue
        if node := _node_of(told):
            yield _Sample(node, field, told, str(value[1]))


def _rows(answer: Any) -> list[dict[str, Any]]:
    data = answer.get("data") if isinstance(answer, dict) else None
    rows = data.get("result") if isinstance(data, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _texts(labels: Any) -> Labels:
    return {key: label for key, label in labels.items() if isinstance(label, str)} if isinstance(labels, dict) else {}


def _samples_of_exporter(text: str) -> Iterator[_Sample]:
    for line in text.splitlines():
        if line.startswith(FIELDS) and (parts := _LINE.fullmatch(line)):
            labels = {name: _unescaped(value) for name, value in _LABEL.findall(parts["labels"] or "")}
            yield _Sample("", parts["name"], labels, parts["value"])


def _unescaped(value: str) -> str:
    return re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0]), value)


def _node_of(labels: Labels) -> str:
    """Return the name of the node: by the labels that a scrape adds, else by the exporter's own; "" if there is
    none.
    """
    return next((labels[key] for key in _NODE_LABELS if labels.get(key)), "")


def _readings(samples: Iterable[_Sample]) -> dict[str, dict[int, GpuReading]]:
    """Return the readings by node and index. Slices are left out, because a slice is only a part of a GPU."""
    values: dict[str, dict[int, dict[str, float | None]]] = {}
    uuids: dict[tuple[str, int], str | None] = {}
    pods: dict[tuple[str, int], set[PodName | None]] = {}
    for node, field, labels, value in samples:
        index = labels.get("gpu", "")
        if field not in FIELDS or labels.get("GPU_I_ID") or not index.isascii() or not index.isdigit():
            continue
        number = int(index[:9])
        if number < MOST_GPUS:
            values.setdefault(node, {}).setdefault(number, {})[field] = measured(value)
            uuids[node, number] = labels.get("UUID") or labels.get("uuid")
            pods.setdefault((node, number), set()).add(_pod_of(labels))
    return {
        node: {
            number: _reading(number, uuids[node, number], pods[node, number], gpus[number]) for number in sorted(gpus)
        }
        for node, gpus in values.items()
    }


def _pod_of(labels: Labels) -> PodName | None:
    """Return the pod that has the GPU. A scrape replaces `pod` by the exporter's own and keeps the original as
    `exported_pod`.
    """
    for prefix in ("exported_", ""):
        namespace, name = labels.get(f"{prefix}namespace"), labels.get(f"{prefix}pod")
        if namespace and name:
            return namespace, name
    return None


def _reading(
    number: int, uuid: str | None, pods: Collection[PodName | None], values: Mapping[str, float | None]
) -> GpuReading:
    used, free = values.get(USED), values.get(FREE)
    utilization = values.get(UTILIZATION)
    return GpuReading(
        number,
        uuid,
        utilization if utilization is not None and utilization <= 100 else None,
        None if used is None else round(used),
        None if used is None or free is None else round(used + free + (values.get(RESERVED) or 0.0)),
        values.get(TEMPERATURE),
        next(iter(pods)) if len(pods) == 1 else None,
        values.get(POWER),
        values.get(CLOCK),
    )
