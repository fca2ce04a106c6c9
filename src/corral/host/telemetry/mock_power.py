"""The power limits of mock devices: a file keeps what was set, as a driver does while its machine is up."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from corral.core.model.devices.device import Device
from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.units import MW_PER_W
from corral.host.telemetry.mock_cluster import read_mock_cluster
from corral.host.telemetry.mock_file import MockDevice


class MockPower:
    """Implements `corral.vendors.vendor.PowerControl` for the devices of a mock file, or of one `node` of it.

    A row with `power_refused` refuses every limit, with these words. `kept` is the file with the limits that were set.
    """

    def __init__(self, path: Path, node: str | None, kept: Path) -> None:
        self._path = path
        self._node = node
        self._kept = kept

    def limit_mw(self, uuid: str) -> int:
        limit_mw = self.limits().get(uuid, self._described(uuid).device.power_limit_mw)
        if limit_mw is None:
            raise BackendFailed(f"the mock driver tells no power limit of {uuid}: Not Supported")
        return limit_mw

    def set_limit_mw(self, uuid: str, limit_mw: int) -> None:
        mock = self._described(uuid)
        least, most = mock.device.power_range_mw or (1, 0)
        words = mock.power_refused or (None if least <= limit_mw <= most else "Invalid Argument")
        if words is not None:
            raise BackendFailed(
                f"the mock driver refuses a power limit of {limit_mw / MW_PER_W:g} W for {uuid}: {words}"
            )
        temporary = self._kept.with_suffix(".new")
        temporary.write_text(json.dumps({**self.limits(), uuid: limit_mw}))
        os.replace(temporary, self._kept)

    def limits(self) -> Mapping[str, int]:
        """Return the limits that were set, in mW, by UUID."""
        try:
            limits: Any = json.loads(self._kept.read_text())
        except (OSError, ValueError):
            return {}
        return {uuid: limit for uuid, limit in limits.items() if type(limit) is int} if type(limits) is dict else {}

    def _described(self, uuid: str) -> MockDevice:
        try:
            devices = read_mock_cluster(self._path).node(self._node).box.devices
        except Refused as error:
            raise BackendFailed(str(error)) from error
        found = next((mock for mock in devices if mock.device.uuid == uuid), None)
        if found is None or found.lost:
            raise BackendFailed(f"the mock driver does not reach {uuid}: GPU is lost")
        return found


def limited(device: Device, limits: Mapping[str, int]) -> Device:
    """Return the device with the power limit that was set, if one was."""
    return replace(device, power_limit_mw=limits[device.uuid]) if device.uuid in limits else device
