"""What --dry-run prints."""

import sys

from corral.cli.screen import clock_time
from corral.client import DryRun
from corral.model.units import count_of


def show_forecast(forecast: DryRun) -> None:
    """Would start now on these; or when, why not, and the nearest shape that would."""
    write = sys.stdout.write
    if forecast.starts_now:
        write(f"would start now on {named_devices(forecast)}\n")
        return
    write(f"would wait: {forecast.reason}\n")
    if forecast.expected_start is not None:
        write(f"expected start: {clock_time(forecast.expected_start)}\n")
    if forecast.nearest and forecast.nearest.get("text"):
        write(f"starts now with: {forecast.nearest['text']}\n")


def named_devices(forecast: DryRun) -> str:
    """The devices as a person names them: GPU 0, 3 (NVIDIA A100)."""
    if not forecast.devices:
        return "the host's processors; it asks for no GPU"
    indices = ", ".join(str(device.index) for device in forecast.devices)
    models = ", ".join(sorted({device.name for device in forecast.devices}))
    return f"{count_of(len(forecast.devices), 'GPU')}: {indices} ({models})"
