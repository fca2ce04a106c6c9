"""Prometheus's text format 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from corral.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Row(NamedTuple):
    """One value; `labels` is a result of `labelled`."""

    labels: str
    value: float


def labelled(**labels: str) -> str:
    """Return the labels of a row, escaped. A label with an empty value equals no label and is left out."""
    pairs = [f'{name}="{_escaped(value)}"' for name, value in labels.items() if value]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def family(name: str, kind: str, about: str, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of all rows of a metric; none if it has no row. `kind` is "gauge" or "counter"."""
    lines = [f"{name}{labels} {_number(value)}" for labels, value in rows]
    if lines:
        yield from _head(name, kind, about)
        yield from lines


def histograms(name: str, about: str, kept: Iterable[tuple[dict[str, str], Histogram]]) -> Iterator[str]:
    """Yield the lines of all histograms of a metric, each with its labels."""
    lines: list[str] = []
    for labels, histogram in kept:
        count = 0
        for bound, count in histogram.buckets():
            lines.append(f"{name}_bucket{labelled(**labels, le=_number(bound))} {count}")
        own = labelled(**labels)
        lines += (f"{name}_sum{own} {_number(histogram.sum)}", f"{name}_count{own} {count}")
    if lines:
        yield from _head(name, "histogram", about)
        yield from lines


def text_of(lines: Iterable[str]) -> bytes:
    """Return the body of an answer. Characters that UTF-8 cannot encode become question marks."""
    return ("\n".join(lines) + "\n").encode(errors="replace")


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return repr(int(value)) if value == int(value) else repr(value)
