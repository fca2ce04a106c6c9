"""The output of --dry-run."""

import shlex

from corral.cli.screen import USAGE, print_json, say, write_lines
from corral.client import DryRun
from corral.core.model.jobs.named_values import named_values
from corral.core.model.units import MILLI_PER_DEVICE, count_of, format_memory, format_share
from corral.formatting.device_names import several_nodes
from corral.formatting.times import start_time
from corral.formatting.usual_use import usual_use


def show_forecast(forecast: DryRun, *, json: bool = False) -> int:
    """Print where and when the job would start, or why not now and what would start it. Return 2 if never, else 0."""
    code = 0 if forecast.possible else USAGE
    if json:
        print_json(forecast)
        return code
    for note in forecast.notes:
        say(note)
    if forecast.predicted is not None:
        say(usual_use(forecast.predicted))
    if forecast.jobs > 1 or forecast.params:
        write_lines(_elements(forecast))
    if forecast.starts_now:
        write_lines(f"would start now on {named_devices(forecast)}")
        return code
    if forecast.possible:
        write_lines(f"would wait: {forecast.reason.removeprefix('it would wait: ')}")
    else:
        write_lines(f"{forecast.reason.removeprefix('it ')}")
    if forecast.expected_start_is is not None:
        write_lines(f"expected start: {start_time(forecast.expected_start, forecast.expected_start_is)}")
    if forecast.nearest and forecast.nearest.text:
        write_lines(f"starts now with: {forecast.nearest.text}")
    return code


def _elements(forecast: DryRun) -> str:
    """The number of jobs, and the first job of a sweep: "10 jobs; the first (lr=0.1): python train.py"."""
    counted = count_of(forecast.jobs, "job")
    if not forecast.params:
        return f"{counted}; of the first:"
    return f"{counted}; the first ({named_values(tuple(forecast.params.items()))}): {shlex.join(forecast.command)}"


def named_devices(forecast: DryRun) -> str:
    """The devices in words for a person: GPU 0, 3 (NVIDIA A100)."""
    if not forecast.devices:
        return "CPUs only (no GPU requested)"
    several = several_nodes(forecast.devices)
    indices = ", ".join(
        f"{device.node}:{device.index}" if several else str(device.index) for device in forecast.devices
    )
    models = ", ".join(sorted({device.name for device in forecast.devices}))
    return f"{count_of(len(forecast.devices), 'GPU')}: {indices} ({models}){_parts(forecast)}"


def _parts(forecast: DryRun) -> str:
    """The share of each device, unless all are whole: ", 0.6 with 1.2G, 0.6 with 1.2G"."""
    if all(grant.share_milli == MILLI_PER_DEVICE for grant in forecast.grants):
        return ""
    return "".join(
        f", {format_share(grant.share_milli)} with {format_memory(grant.memory_mib)}" for grant in forecast.grants
    )
