"""Reads and sets the power limits of NVIDIA's devices through NVML."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pynvml

from corral.core.model.errors import BackendFailed
from corral.core.model.units import MW_PER_W
from corral.vendors.nvidia.nvml_devices_and_slices import Handle

T = TypeVar("T")


class NvmlPower:
    """Implements `corral.vendors.vendor.PowerControl`. The driver accepts a limit only from root."""

    def limit_mw(self, uuid: str) -> int:
        with _session():
            call = pynvml.nvmlDeviceGetPowerManagementLimit
            return int(_answer(f"tells no power limit of {uuid}", call, _handle(uuid)))

    def set_limit_mw(self, uuid: str, limit_mw: int) -> None:
        with _session():
            call = pynvml.nvmlDeviceSetPowerManagementLimit
            _answer(f"refuses a power limit of {limit_mw / MW_PER_W:g} W for {uuid}", call, _handle(uuid), limit_mw)


@contextmanager
def _session() -> Iterator[None]:
    """A session of its own: NVML counts them, and the session that reads the devices may end at any time."""
    _answer("does not answer", pynvml.nvmlInit)
    try:
        yield
    finally:
        _answer("does not end its session", pynvml.nvmlShutdown)


def _handle(uuid: str) -> Handle:
    return _answer(f"does not show {uuid}", pynvml.nvmlDeviceGetHandleByUUID, uuid)


def _answer(failure: str, call: Callable[..., T], *arguments: Any) -> T:
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        raise BackendFailed(f"the NVIDIA driver {failure}: {error}") from error
