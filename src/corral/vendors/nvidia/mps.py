"""NVIDIA's Multi-Process Service: several jobs at once on a device, each with a limit on compute and memory."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import ClientLimits, Means
from corral.core.model.errors import CorralError, Refused
from corral.core.model.placing.tenant import Tenant
from corral.core.model.units import format_share, slot_milli
from corral.vendors.nvidia.compute_mode import ANY_PROCESS, ONE_PROCESS, set_compute_mode
from corral.vendors.nvidia.mps_daemon import (
    MpsDaemon,
    MpsDefaults,
    MpsHealth,
    MpsPaths,
    MpsState,
    program_missing,
)
from corral.vendors.sharing_driver import share_refusal
from corral.vendors.vendor import Clients, Lost

LEAST_COMPUTE = (7, 0)
"""Volta, the first generation whose MPS clients have address spaces of their own."""
LEAST_CUDA = (11, 5)
"""The first version with which the memory of a client can be limited on every device of this kind."""
CLIENT_LIMIT = 48


def mps_unfit(node: Node, device: Device) -> str | None:
    """The reason why MPS cannot run on the device at all; None if it can. Unknown values count as not sufficient."""
    capability = device.compute_capability
    if capability is None or capability < LEAST_COMPUTE:
        found = "does not say its compute capability" if capability is None else f"has {capability[0]}.{capability[1]}"
        return f"MPS needs Volta or newer (compute capability 7.0) and {device.model} {found}; use --share timeslice"
    if node.cuda_version is None or node.cuda_version < LEAST_CUDA:
        cuda = node.cuda_version
        found = "does not say its CUDA version" if cuda is None else f"is for CUDA {cuda[0]}.{cuda[1]}"
        return f"MPS needs a driver for CUDA 11.5 or newer and that of {node.name} {found}; use --share timeslice"
    if device.mig_enabled is not False:
        found = "does not say whether it is" if device.mig_enabled is None else "is"
        return f"MPS does not run on a MIG device, and {device.uuid} {found} one; use --mig or another device"
    if device.memory_mib is None:
        return f"MPS cannot limit what jobs take of {device.uuid}, which does not say how much memory it has"
    return None


class Mps:
    """A control daemon for each shared device, under `home`. Clients have their limits in their environment.

    `multi_user` runs the daemon so that clients of several Unix users can share it; otherwise one user at a time. With
    `slots` the daemon divides its device into so many equal parts, and holds each client to one. `leavable` says why a
    job can use the device past the daemon all the same; None if the driver keeps it from that.
    """

    means = Means.MPS
    slow = True

    def __init__(
        self,
        home: Path,
        *,
        control: str = "nvidia-cuda-mps-control",
        multi_user: bool = False,
        slots: int | None = None,
        leavable: str | None = "the compute mode of its device is not set",
    ) -> None:
        self._home = home
        self._control = control
        self._multi_user = multi_user
        self._slots = slots
        self._leavable = leavable
        self._daemons: dict[str, MpsDaemon] = {}

    def unfit(self, node: Node, device: Device) -> str | None:
        """The reason, in words for a person, why no daemon can serve the device here; None if one can."""
        unfit = mps_unfit(node, device) or program_missing(self._control)
        if unfit is not None:
            return unfit
        try:
            MpsPaths.under(self._home, device.uuid)
        except Refused as refused:
            return str(refused)
        return None

    def client_limits(self, device: Device) -> ClientLimits:
        """The limits of the daemon that runs on the device, else of one that would be started now."""
        slots = self._daemon(device).slots()
        if slots is None:
            return ClientLimits(None, "MPS takes the limits of a job from its own variables (see mps_slots)")
        return ClientLimits(slots, None if self._leavable is None else f"a job can leave MPS: {self._leavable}")

    def one_user(self, device: Device) -> bool:
        """Whether the device serves one Unix user at a time. If its daemon runs, the options of its start decide."""
        return not self._daemon(device).serves_many()

    def refusal(self, node: Node, device: Device, tenants: Sequence[Tenant], newcomer: Tenant) -> str | None:
        unfit = mps_unfit(node, device)
        if unfit is not None:
            return unfit
        if not newcomer.alone:
            return f"a share split over devices cannot be on MPS, and {device.uuid} is; ask for 1 GPU or less"
        stranger = next((tenant for tenant in tenants if tenant.user != newcomer.user), None)
        if stranger is not None and self.one_user(device):
            return f"MPS on {device.uuid} serves {stranger.user} now (job {stranger.job_id}), and one user at a time"
        slots = self._daemon(device).slots()
        if slots is not None and newcomer.grant.share_milli > slot_milli(slots):
            return f"MPS on {device.uuid} has {slots} equal slots; ask for {format_share(slot_milli(slots))} of a GPU"
        if len(tenants) >= CLIENT_LIMIT:
            return f"MPS on {device.uuid} has {len(tenants)} clients, the limit; wait for one to end"
        return share_refusal(device, tenants, newcomer)

    def environment(self, device: Device, tenant: Tenant) -> tuple[tuple[str, str], ...]:
        """The variables of a client. Memory is limited in MiB on device 0: the client sees only its own device.

        Raises Refused if the memory of the grant is not known: then nothing would limit it.
        """
        if tenant.grant.memory_mib is None:
            raise Refused(f"{device.uuid} does not say how much memory it has, so MPS cannot limit a job on it")
        paths = MpsPaths.under(self._home, device.uuid)
        percent = tenant.cores_percent or max(1, tenant.grant.share_milli // 10)
        return (
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(percent)),
            ("CUDA_MPS_LOG_DIRECTORY", str(paths.log)),
            ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", f"0={tenant.grant.memory_mib}M"),
            ("CUDA_MPS_PIPE_DIRECTORY", str(paths.pipe)),
        )

    def prepare(self, device: Device) -> None:
        """Make sure that a healthy daemon runs. A daemon that is down, hung or at fault is replaced.

        With equal slots the driver then admits no process but the daemon's server, so no job can leave MPS.
        """
        daemon = self._daemon(device)
        if self._slots is not None and self._leavable is None and daemon.pid() is None:
            set_compute_mode(device, ONE_PROCESS)
        daemon.start()

    def release(self, device: Device) -> None:
        daemon = self._daemon(device)
        divided = daemon.slots() is not None
        daemon.stop()
        if divided and self._leavable is None:
            set_compute_mode(device, ANY_PROCESS)

    def health(self, device: Device) -> MpsHealth:
        """The current health of the daemon of a shared device."""
        return self._daemon(device).health()

    def daemons(self) -> tuple[int, ...]:
        """The pids of the control daemons that run now. The servers to which clients connect are their descendants."""
        pids = (daemon.pid() for daemon in tuple(self._daemons.values()))
        return tuple(pid for pid in pids if pid is not None)

    def _defaults(self, device: Device) -> MpsDefaults | None:
        if self._slots is None or device.memory_mib is None:
            return None
        return MpsDefaults(self._slots, device.memory_mib // self._slots)

    def _daemon(self, device: Device) -> MpsDaemon:
        if device.uuid not in self._daemons:
            paths = MpsPaths.under(self._home, device.uuid)
            self._daemons[device.uuid] = MpsDaemon(
                device.uuid,
                paths,
                control=self._control,
                multi_user=self._multi_user,
                defaults=self._defaults(device),
            )
        return self._daemons[device.uuid]


log = logging.getLogger(__name__)

_INTERVAL_S = 2.0


class MpsWatch:
    """Checks the daemons of devices with running clients, on a thread of its own.

    A daemon that is down, hung or at fault is reported to `lost` with its clients, and started again.
    """

    def __init__(self, mps: Mps, clients: Clients, lost: Lost) -> None:
        self._mps = mps
        self._clients = clients
        self._lost = lost
        self._pids: dict[str, int] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mps-watch", daemon=True)

    def start(self) -> None:
        """Start the watch."""
        self._thread.start()

    def close(self) -> None:
        """Stop the watch after the current round."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def look(self) -> None:
        """Check all daemons with clients once."""
        clients = self._clients()
        self._pids = {uuid: pid for uuid, pid in self._pids.items() if uuid in clients}
        for device, _ in clients.values():
            self._look_at(device)

    def _look_at(self, device: Device) -> None:
        health = self._mps.health(device)
        before = self._pids.get(device.uuid)
        if health.state is MpsState.RUNNING and before in (None, health.pid):
            self._pids[device.uuid] = health.pid or 0
            return
        # The clients are read again: if the last client has just ended, its daemon was stopped on purpose.
        _, launches = self._clients().get(device.uuid, (device, ()))
        if not launches:
            return
        what = health.detail or ("another daemon is in its place" if health.pid else "it is gone")
        reason = f"the MPS daemon of {device.uuid} failed: {what}; every job that was a client of it is lost"
        log.error("%s", reason)
        self._lost(device.uuid, reason, launches)
        self._pids.pop(device.uuid, None)
        if health.state is not MpsState.RUNNING:
            self._mps.prepare(device)

    def _run(self) -> None:
        while not self._closing.wait(_INTERVAL_S):
            try:
                self.look()
            except CorralError as error:
                log.error("mps-watch: %s", error)
