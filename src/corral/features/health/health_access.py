"""The use cases of devices' health: list it, trust a device, have it tested, collect the evidence."""

import logging
from collections.abc import Callable, Iterator, Mapping

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import must_be_admin
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.lifecycle.device_health import HealthStep, put_on_probation, that_matter, trusted
from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.health import WELL, DeviceHealth, Health, HealthSign, Verdict
from corral.core.model.errors import Conflict, CorralError
from corral.core.model.fact import DeviceHealthChanged
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.features.health.answers import Evidence, HealthChange, HealthList, HealthRow, RunOnDevice
from corral.features.health.counters import counters_of
from corral.features.health.slice import HealthSlice

log = logging.getLogger(__name__)

RUNS_S = 7 * 86400.0
MOST_RUNS = 500
"""The evidence has the last of the jobs that had the device in this time."""

FindDevice = Callable[[str], str]
"""Returns the UUID of a device by a name for it. Raises NotFound and Refused."""


class HealthAccess:
    """The use cases of devices' health. Thread-safe."""

    def __init__(
        self, ledger: Ledger, nodes: Nodes, clock: Clock, readings: Callable[[], Mapping[str, DeviceSample]]
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._clock = clock
        self._readings = readings

    def rows(self) -> HealthList:
        """Return the health of all devices of which something is recorded, the sickest first."""
        view = self._ledger.view()
        rows = sorted((_row(view, uuid) for uuid in view.health), key=_sickest_first)
        total = sum(len(node.devices) for node in view.nodes.values())
        return in_wall_time(HealthList(tuple(rows), total), self._clock)

    def trust(self, device: str, find: FindDevice, caller: Caller) -> HealthRow:
        """Let jobs start on a device whatever its signs say. A sign that lasts counts again after it was gone once."""
        must_be_admin(caller, "trusting a device")
        uuid = self._uuid(device, find)
        return self._change(uuid, lambda health, at: trusted(health, self._signs(uuid), caller.user, at), caller)

    def probe(self, device: str, find: FindDevice, caller: Caller) -> HealthRow:
        """Have a device tested and watched, as after a fault. Raises Conflict while a fault is still read."""
        must_be_admin(caller, "having a device tested")
        uuid = self._uuid(device, find)

        def probation(health: DeviceHealth, at: float) -> HealthStep:
            for sign in that_matter(self._signs(uuid), health):
                if sign.lasts and sign.verdict is Verdict.QUARANTINE:
                    raise Conflict(f"device {device} still has its fault ({sign.detail}); probe it once that is gone")
            return put_on_probation(health, caller.user, at)

        return self._change(uuid, probation, caller)

    def evidence(self, device: str, find: FindDevice, caller: Caller) -> Evidence:
        """Return all that is known of a device's health."""
        uuid, snapshot, now = self._uuid(device, find), self._ledger.snapshot(), self._clock.now()
        place, sample = snapshot.view.device(uuid), self._readings().get(uuid)
        lines, missing = self._driver_log(uuid, None if place is None else place[0].name, caller)
        found = Evidence(
            device=_row(snapshot.view, uuid),
            taken_at=now,
            pci_bus_id=None if place is None else place[1].pci_bus_id,
            driver=None if place is None else place[0].driver_version,
            errors=tuple(sign.detail for sign in self._signs(uuid)),
            counters=() if sample is None else counters_of(sample),
            changes=tuple(
                HealthChange(note.at, note.state.value, note.reason, note.evidence, note.by)
                for note in snapshot.of(HealthSlice).notes.get(uuid, ())
            ),
            runs=tuple(self._runs(uuid, now)),
            driver_log=lines,
            driver_log_missing=missing,
        )
        return in_wall_time(found, self._clock)

    def _driver_log(self, uuid: str, node: str | None, caller: Caller) -> tuple[tuple[str, ...], str | None]:
        """Return the driver's lines about the device, or why there are none."""
        if not caller.admin and not caller.overseer:
            return (), "only administrators get them: they name processes of all users"
        try:
            host = None if node is None else self._nodes.agent(node).host
            lines = None if host is None else host.driver_log(uuid)
        except CorralError as error:
            return (), str(error)
        return (lines, None) if lines is not None else ((), "the log of the node's kernel cannot be read from here")

    def _runs(self, uuid: str, now: float) -> Iterator[RunOnDevice]:
        runs = [
            RunOnDevice(held.job_id, held.user, grant.share_milli, held.created_at, held.ended_at)
            for held in self._ledger.held(now - RUNS_S, now, unbilled=True)
            for member in held.members
            for grant in member.grants
            if grant.uuid == uuid
        ]
        yield from runs[-MOST_RUNS:]

    def _uuid(self, device: str, find: FindDevice) -> str:
        """Return the UUID of a device. A sick one that no node has any more is known by its UUID alone."""
        return device if device in self._ledger.view().health else find(device)

    def _signs(self, uuid: str) -> tuple[HealthSign, ...]:
        samples = self._readings()
        sample = samples.get(uuid)
        place = self._ledger.view().device(uuid)
        whole = None if place is None else samples.get(place[1].parent_uuid or "")
        return tuple(sign for one in (sample, whole) if one is not None for sign in one.signs)

    def _change(self, uuid: str, change: Callable[[DeviceHealth, float], HealthStep], caller: Caller) -> HealthRow:
        def decide(view: View) -> Decided[None]:
            at = self._clock.now()
            after = change(view.health.get(uuid, WELL), at)
            fact = DeviceHealthChanged(uuid, after.health, after.evidence, at=at, by=caller.user)
            return Decided((fact,), None)

        self._ledger.commit(decide).result()
        row = _row(self._ledger.view(), uuid)
        log.info("GPU %s is %s: %s", uuid, row.health, row.reason)
        return in_wall_time(row, self._clock)


def _row(view: View, uuid: str) -> HealthRow:
    health = view.health.get(uuid, WELL)
    node, device = view.device(uuid) or (None, None)
    return HealthRow(
        uuid=uuid,
        index=None if device is None else device.index,
        name="" if device is None else device.model,
        node=None if node is None else node.name,
        health=health.state.value,
        reason=health.reason or None,
        since=health.since or None,
        until=health.until,
        tested=health.tested,
        relapses=health.relapses,
        trusted=tuple(kind.value for kind in health.trusted),
        jobs=tuple(view.allocations[allocation_id].job_id for allocation_id in view.holders.get(uuid, ())),
    )


_SICKEST = (Health.QUARANTINED, Health.PROBATION, Health.SUSPECT, Health.HEALTHY)


def _sickest_first(row: HealthRow) -> tuple[int, str, int, str]:
    return _SICKEST.index(Health(row.health)), row.node or "", row.index or 0, row.uuid
