"""Sharing by a library in the processes of jobs: HAMi-core stands between a program and the driver, and limits it.

A job can leave it by unsetting LD_PRELOAD, and a program that is linked statically never meets it.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.home import Home
from corral.core.model.placing.tenant import Tenant
from corral.vendors.sharing_driver import share_refusal
from corral.vendors.sharing_without_setup import WithoutSetup


def hook_missing(library: str | None) -> str | None:
    """The reason why jobs cannot be limited by a library here; None if they can."""
    if library is None:
        return "hook is not set to the library that limits jobs"
    if not os.access(library, os.R_OK):
        return f"the library {library} cannot be read"
    return None


class Hook(WithoutSetup):
    """Sharing under a library, on one device of a job. Each job has its own account of memory, in its scratch."""

    means = Means.HOOK

    def __init__(self, library: str | None, home: Path) -> None:
        self._library = library
        self._home = Home(home)

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        if not newcomer.alone:
            return f"a share split over devices cannot be limited by a hook, as {device.uuid} is; ask for 1 GPU or less"
        return share_refusal(device, tenants, newcomer)

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        """The variables that the library reads. Raises Refused if the memory of the grant is not known."""
        if self._library is None or tenant.grant.memory_mib is None:
            raise Refused(f"{device.uuid} does not say how much memory it has, so no hook can limit a job on it")
        percent = tenant.cores_percent or max(1, tenant.grant.share_milli // 10)
        return (
            ("CUDA_DEVICE_MEMORY_LIMIT", f"{tenant.grant.memory_mib}m"),
            ("CUDA_DEVICE_MEMORY_SHARED_CACHE", str(self._home.scratch_of(tenant.job_id) / "hook.cache")),
            ("CUDA_DEVICE_SM_LIMIT", str(percent)),
            ("LD_PRELOAD", self._library),
        )
