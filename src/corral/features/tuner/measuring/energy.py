"""Computes the energy per token from the power that GPUs drew while they were measured. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from corral.features.history.answers import GpuWindow

_POWER = "power_w"


def energy_j(duration_s: float, gpus: Sequence[GpuWindow]) -> float | None:
    """Return the joules that all GPUs used in a window: the mean of the measured power times the whole duration.

    None if the power of one of them was not measured.
    """
    powers = [gpu.series.get(_POWER) for gpu in gpus]
    known = [power for power in powers if power is not None]
    return sum(one.sum / one.count for one in known) * duration_s if known and len(known) == len(powers) else None


def energy_figures(levels: Sequence[Mapping[str, Any]], joules: Sequence[float | None]) -> dict[str, float]:
    """Return joules, and joules per token, over the levels with known energy and tokens; empty if there are none."""
    known = [(level, one) for level, one in zip(levels, joules, strict=True) if one is not None]
    total = sum(one for _, one in known)
    figures = {"energy_j": total} if known else {}
    output, prompt = (_tokens(known, name) for name in ("num_output_tokens", "num_input_tokens"))
    if output:
        figures["energy_per_output_token_j"] = total / output
    if output is not None and prompt is not None and output + prompt:
        figures["energy_per_total_token_j"] = total / (output + prompt)
    return figures


def _tokens(levels: Sequence[tuple[Mapping[str, Any], float]], name: str) -> float | None:
    """Return the tokens of all levels together, None if they are not known for one of them."""
    stats = [level["stats"].get(name) for level, _ in levels]
    return None if None in stats else sum(found["sum"] for found in stats if found is not None)
