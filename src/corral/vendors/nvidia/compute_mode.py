"""Whole devices that the driver opens to a single process: NVIDIA's compute mode EXCLUSIVE_PROCESS."""

from corral.core.model.devices.device import Device
from corral.core.model.errors import BackendFailed
from corral.vendors.nvidia.mps_daemon import program_missing
from corral.vendors.nvidia.tools import NVIDIA_SMI, run_tool
from corral.vendors.sharing_without_setup import Exclusive

ONE_PROCESS, ANY_PROCESS = "EXCLUSIVE_PROCESS", "DEFAULT"


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


def set_compute_mode(device: Device, mode: str, *, nvidia_smi: str = NVIDIA_SMI) -> None:
    """Set the compute mode of a device. Raises BackendFailed."""
    run_tool([nvidia_smi, "-i", device.uuid, "-c", mode], timeout_s=30.0)


class OneProcess(Exclusive):
    """Exclusive devices whose driver admits only one process.

    This breaks jobs that open the device from several processes. It is therefore off by default.
    """

    slow = True

    def __init__(self, *, nvidia_smi: str = NVIDIA_SMI) -> None:
        self._nvidia_smi = nvidia_smi

    def prepare(self, device: Device) -> None:
        self._set(device, ONE_PROCESS)

    def release(self, device: Device) -> None:
        self._set(device, ANY_PROCESS)

    def _set(self, device: Device, mode: str) -> None:
        try:
            set_compute_mode(device, mode, nvidia_smi=self._nvidia_smi)
        except BackendFailed as failure:
            advice = "without exclusive_process_mode in config.yaml devices are allocated whole all the same"
            raise BackendFailed(f"{failure}; {advice}") from failure
