"""Whole devices: no other job is on the device, so the job has all of it."""

from collections.abc import Sequence

from corral.model.device import Device, Node
from corral.model.errors import BackendFailed
from corral.model.means import Means
from corral.model.tenant import Tenant
from corral.model.units import MILLI_PER_DEVICE, format_share
from corral.sharing.mps_daemon import program_missing
from corral.sharing.nvidia_tools import run_tool

NVIDIA_SMI = "nvidia-smi"
"""The program that sets the compute mode of a device."""


def process_mode_missing(*, described: bool, by_root: bool) -> str | None:
    """Why the compute mode of devices cannot be set here, None when it can.

    Devices `described` in a mock file have no driver, and a driver accepts it from root only.
    """
    if described:
        return "described devices have no compute mode"
    missing = program_missing(NVIDIA_SMI)
    return (
        missing
        if missing is not None or by_root
        else "only root may set a compute mode, and the server runs as somebody else"
    )


class Exclusive:
    """One tenant with the whole device. With `process_mode`, the driver also admits only one process to it.

    Exclusive-process mode breaks jobs that open the device from several processes, so it is off by default.
    """

    means = Means.EXCLUSIVE

    def __init__(self, *, process_mode: bool = False, nvidia_smi: str = NVIDIA_SMI, timeout_s: float = 30.0) -> None:
        self.slow = process_mode
        self._process_mode = process_mode
        self._nvidia_smi = nvidia_smi
        self._timeout_s = timeout_s

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        if newcomer.grant.share_milli < MILLI_PER_DEVICE:
            share = format_share(newcomer.grant.share_milli)
            return f"{device.uuid} is allocated only as a whole, not {share} of it; ask for --gpus 1"
        if tenants:
            return f"{device.uuid} is exclusive, and job {tenants[0].job_id} has it"
        return None

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        return ()

    def prepare(self, device: Device) -> None:
        self._set_compute_mode(device, "EXCLUSIVE_PROCESS")

    def release(self, device: Device) -> None:
        self._set_compute_mode(device, "DEFAULT")

    def _set_compute_mode(self, device: Device, mode: str) -> None:
        if self._process_mode:
            try:
                run_tool([self._nvidia_smi, "-i", device.uuid, "-c", mode], timeout_s=self._timeout_s)
            except BackendFailed as failure:
                advice = "without exclusive_process_mode in config.yaml devices are allocated whole all the same"
                raise BackendFailed(f"{failure}; {advice}") from failure
