"""Watches the MPS daemons of this host. If a daemon goes down, its clients are lost."""

import logging
import threading

from corral.core.model.devices.device import Device
from corral.core.model.errors import CorralError
from corral.vendors.nvidia.mps import Mps
from corral.vendors.nvidia.mps_daemon import MpsState
from corral.vendors.vendor import Clients, Lost

log = logging.getLogger(__name__)

INTERVAL_S = 2.0


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
        # Asked again: if the last client has just ended, its daemon was stopped on purpose.
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
        while not self._closing.wait(INTERVAL_S):
            try:
                self.look()
            except CorralError as error:
                log.error("mps-watch: %s", error)
