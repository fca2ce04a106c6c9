"""Joules by token."""

import pytest

from corral.features.history.answers import GpuWindow, SeriesWindow
from corral.features.tuner.measuring.energy import energy_figures, energy_j


def gpu(*watts: float) -> GpuWindow:
    power = SeriesWindow(len(watts), sum(watts), min(watts, default=0), max(watts, default=0), float(len(watts)))
    return GpuWindow("0", "NVIDIA A100", 40_000, {"power_w": power} if watts else {})


def level(output: float | None, prompt: float = 0.0) -> dict[str, object]:
    stats = {"num_output_tokens": None if output is None else {"sum": output}, "num_input_tokens": {"sum": prompt}}
    return {"stats": stats}


def test_the_power_of_all_gpus_is_taken_over_the_whole_window() -> None:
    assert energy_j(2.5, [gpu(200, 400), gpu(100)]) == 2.5 * 400


@pytest.mark.parametrize("gpus", [[], [gpu()], [gpu(100), gpu()]])
def test_energy_is_unknown_where_the_power_of_a_gpu_was_not_read(gpus: list[GpuWindow]) -> None:
    assert energy_j(2.0, gpus) is None


def test_levels_whose_energy_is_unknown_count_with_their_tokens_for_nothing() -> None:
    assert energy_figures([level(100, 300), level(1e9)], [400.0, None]) == {
        "energy_j": 400.0,
        "energy_per_output_token_j": 4.0,
        "energy_per_total_token_j": 1.0,
    }
    assert energy_figures([level(100)], [None]) == {}


def test_without_output_there_is_no_energy_for_a_token_of_it() -> None:
    assert energy_figures([level(None, 100)], [50.0]) == {"energy_j": 50.0}
