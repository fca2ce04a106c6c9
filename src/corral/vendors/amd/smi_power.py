"""Reads and sets the power limits of AMD's devices through the `amdsmi` package."""

from collections.abc import Callable
from typing import Any, TypeVar

from corral.core.model.errors import BackendFailed
from corral.core.model.units import MW_PER_W
from corral.vendors.amd.smi import Handle, device_uuid, load_amdsmi

T = TypeVar("T")

_SENSOR = 0
"""The power of the whole package; other sensors are of parts of it."""
_MICROWATTS = 1000
"""Microwatts in a milliwatt."""


class AmdSmiPower:
    """Implements `corral.vendors.vendor.PowerControl`. The driver accepts a limit only from root.

    The package has one session in a process, which stays open. The reader of the devices is another process.
    """

    def __init__(self) -> None:
        self._smi: Any = None

    def limit_mw(self, uuid: str) -> int:
        handle = self._handle(uuid)
        cap = self._answer(f"tells no power limit of {uuid}", self._smi.amdsmi_get_power_cap_info, handle)
        return int(cap["power_cap"]) // _MICROWATTS

    def set_limit_mw(self, uuid: str, limit_mw: int) -> None:
        failure = f"refuses a power limit of {limit_mw / MW_PER_W:g} W for {uuid}"
        handle = self._handle(uuid)
        self._answer(failure, self._smi.amdsmi_set_power_cap, handle, _SENSOR, limit_mw * _MICROWATTS)

    def _handle(self, uuid: str) -> Handle:
        self._smi = self._smi or load_amdsmi()
        self._answer("does not answer", self._smi.amdsmi_init)
        for handle in self._answer("lists no devices", self._smi.amdsmi_get_processor_handles):
            if device_uuid(self._answer("names no device", self._smi.amdsmi_get_gpu_enumeration_info, handle)) == uuid:
                return handle
        raise BackendFailed(f"the AMD driver does not show {uuid}")

    def _answer(self, failure: str, call: Callable[..., T], *arguments: Any) -> T:
        try:
            return call(*arguments)
        except self._smi.AmdSmiException as error:
            words = " ".join(str(error).split())
            raise BackendFailed(f"the AMD driver {failure}: {words}") from error
