"""Whole devices that the driver opens to a single process: NVIDIA's compute mode EXCLUSIVE_PROCESS."""

from corral.core.model.devices.device import Device
from corral.core.model.errors import BackendFailed
from corral.vendors.nvidia.mps_daemon import program_missing
from corral.vendors.nvidia.tools import NVIDIA_SMI, run_tool
from corral.vendors.sharing_without_setup import Exclusive


def process_mode_missing(*, described: bool, by_root: bool) -> str | None:
    """The reason why the compute mode of devices cannot be set here; None if it can.

    Devices `described` in a mock file have no driver. A driver accepts the mode only from root.
    """
    if described:
        return "described devices have no compute mode"
    missing = program_missing(NVIDIA_SMI)
    return (
        missing
        if missing is not None or by_root
        else "only root may set a compute mode, and the server runs as somebody else"
    )


class OneProcess(Exclusive):
    """Exclusive devices whose driver admits only one process.

    This breaks jobs that open the device from several processes. It is therefore off by default.
    """

    slow = True

    def __init__(self, *, nvidia_smi: str = NVIDIA_SMI) -> None:
        self._nvidia_smi = nvidia_smi

    def prepare(self, device: Device) -> None:
        self._set_compute_mode(device, "EXCLUSIVE_PROCESS")

    def release(self, device: Device) -> None:
        self._set_compute_mode(device, "DEFAULT")

    def _set_compute_mode(self, device: Device, mode: str) -> None:
        try:
            run_tool([self._nvidia_smi, "-i", device.uuid, "-c", mode], timeout_s=30.0)
        except BackendFailed as failure:
            advice = "without exclusive_process_mode in config.yaml devices are allocated whole all the same"
            raise BackendFailed(f"{failure}; {advice}") from failure
