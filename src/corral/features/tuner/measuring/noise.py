"""Possible disturbances of a measurement: neighbours, throttling, and clocks below the usual ones. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from corral.features.history.answers import GpuWindow, SeriesWindow

SLOW = 0.9
"""A clock below this part of the usual one of its model is slow."""

LEAST_THROTTLED = 0.01
"""Throttling for a smaller part of the time is not told."""

MOST_NEIGHBOURS = 20
_MOST_CHARACTERS = 60
_SAME_GPU, _SAME_NODE, _THROTTLED, _SLOW = "same_gpu", "same_node", "throttled", "slow_clocks"


def with_neighbours(noise: Mapping[str, Any] | None, found: Mapping[str, Sequence[str]] | None) -> dict[str, Any]:
    """Return the noise of an experiment with further neighbours, under "same_gpu" and "same_node".

    None as `found` means that neighbours are not known.
    """
    known = dict(noise or {})
    if found is None:
        return known
    for place in (_SAME_GPU, _SAME_NODE):
        named = dict.fromkeys((*known.get(place, ()), *found.get(place, ())))
        known[place] = list(named)[:MOST_NEIGHBOURS]
    return known


def noise_of_gpus(windows: Iterable[Sequence[GpuWindow]], usual_mhz: Mapping[str, float]) -> dict[str, Any]:
    """Return the throttling and the slow clocks of GPUs in several windows, by the GPU's label.

    `usual_mhz` has the usual clocks by model. What was not read is left out: "throttled" is a part of the time from 0
    to 1, "slow_clocks" has the mean clock and the usual one in MHz.
    """
    read: dict[str, list[GpuWindow]] = {}
    for window in windows:
        for gpu in window:
            read.setdefault(gpu.label, []).append(gpu)
    throttled = {label: _mean("throttle", gpus) for label, gpus in read.items()}
    found: dict[str, Any] = {}
    parts = {label: part for label, part in throttled.items() if part is not None}
    if parts:
        found[_THROTTLED] = {label: round(part, 3) for label, part in parts.items() if part >= LEAST_THROTTLED}
    clocks = {label: (_mean("sm_clock_mhz", gpus), usual_mhz.get(gpus[0].name or "")) for label, gpus in read.items()}
    known = {label: (mhz, usual) for label, (mhz, usual) in clocks.items() if mhz is not None and usual is not None}
    if known:
        found[_SLOW] = {
            label: {"mean_mhz": round(mhz), "usual_mhz": round(usual)}
            for label, (mhz, usual) in known.items()
            if mhz < SLOW * usual
        }
    return found


def noise_in_words(noise: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return a phrase for each disturbance. The user of a task may have written any record."""
    return tuple(_phrases(noise or {}))


def _phrases(noise: Mapping[str, Any]) -> Iterator[str]:
    for place, words in ((_SAME_GPU, "on its GPUs"), (_SAME_NODE, "on its node")):
        others = noise.get(place)
        if isinstance(others, list) and others:
            named = ", ".join(str(one)[:_MOST_CHARACTERS] for one in others[:3])
            more = f" and {len(others) - 3} more" if len(others) > 3 else ""
            yield f"{named}{more} ran {words} at the same time"
    for label, part in _entries(noise.get(_THROTTLED)):
        if isinstance(part, int | float):
            yield f"GPU {label} was throttled {part:.0%} of the time"
    for label, clock in _entries(noise.get(_SLOW)):
        if isinstance(clock, Mapping):
            mean, usual = (str(clock.get(name))[:_MOST_CHARACTERS] for name in ("mean_mhz", "usual_mhz"))
            yield f"GPU {label} ran at {mean} MHz, its model usually at {usual} MHz"


def _entries(found: Any) -> Iterator[tuple[str, Any]]:
    for label, value in found.items() if isinstance(found, Mapping) else ():
        yield str(label)[:_MOST_CHARACTERS], value


def _mean(series: str, gpus: Sequence[GpuWindow]) -> float | None:
    read: list[SeriesWindow] = [gpu.series[series] for gpu in gpus if series in gpu.series]
    count = sum(one.count for one in read)
    return sum(one.sum for one in read) / count if count else None
