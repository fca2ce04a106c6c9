"""Converts devices and nodes to subjects that alert rules evaluate."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from corral.core.model.devices.device import Device, DeviceCondition, DeviceSample, Node, Silence, throttle_reasons
from corral.core.model.printable import printable
from corral.core.model.view import View
from corral.core.ports.telemetry import NodeContact
from corral.features.alerts.firing import Subject

SLOWING = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "power_brake"})
"""The throttle reasons that indicate a problem. A power cap is not among them: it is normal for a busy device."""

JOINING_S = 60.0
"""After its start a server waits this long for a node before it counts the node as silent."""

_MW_PER_W = 1000


def device_subject(uuid: str) -> str:
    """Return the subject name of a device."""
    return f"device {uuid}"


@dataclass(slots=True)
class _Names:
    """The names of a device. They are the same in each round and are kept, because there may be tens of thousands.

    `still` is the subject of the last round if the device was not measured then.
    """

    device: Device
    several: bool
    subject: str
    called: str
    labels: tuple[tuple[str, str], ...]
    group: str
    still: Subject | None = None


class DeviceSubjects:
    """Builds the subjects of all devices in each round. It keeps the last Xid error of each to recognize new ones."""

    def __init__(self, known_xids: Mapping[str, int]) -> None:
        """`known_xids` are the errors that were reported before, by UUID."""
        self._xids = dict(known_xids)
        self._before: dict[str, int] = {}
        self._names: dict[str, _Names] = {}

    def subjects(self, view: View, samples: Mapping[str, DeviceSample], oldest: float) -> list[Subject]:
        """Return a subject for every device of the view. Samples taken before `oldest` (Unix seconds) are ignored."""
        several = len(view.nodes) > 1
        known, self._names = self._names, {}
        found = []
        for node in view.nodes.values():
            heard = node.name not in view.silences
            for device in node.devices:
                sample = samples.get(device.uuid)
                if sample is not None and (sample.fault is not None or sample.taken_at < oldest):
                    sample = None
                names = known.get(device.uuid)
                if names is None or names.device is not device or names.several is not several:
                    names = _names_of(node, device, several=several)
                self._names[device.uuid] = names
                found.append(self._subject(view, node, names, sample, heard=heard))
        return found

    def _subject(
        self,
        view: View,
        node: Node,
        names: _Names,
        sample: DeviceSample | None,
        *,
        heard: bool,
    ) -> Subject:
        device, uuid = names.device, names.device.uuid
        measured = sample is not None and sample.metered
        known = {"jobs": len(view.holders.get(uuid, ())), **_standing(view, uuid, heard=heard)}
        still = names.still
        if not measured and still is not None and known.items() <= still.readings.items():
            return still
        readings: dict[str, float | str | None] = {"model": device.model, "node": node.name, **known}
        if sample is not None and measured:
            readings |= _measured(sample)
            readings["new_xid"] = self._new_xid(uuid, sample.xid)
        subject = Subject(names.subject, names.called, readings, names.labels, group=names.group)
        names.still = None if measured else subject
        return subject

    def _new_xid(self, uuid: str, xid: int | None) -> int | None:
        """Return the error if it is new since the last round, 0 if it is not, None if it was not read."""
        if xid is None:
            return None
        before = self._xids.get(uuid, 0)
        self._xids[uuid] = xid
        return xid if xid not in (0, before) else 0


def _names_of(node: Node, device: Device, *, several: bool) -> _Names:
    called = f"GPU {node.name}:{device.index}" if several else f"GPU {device.index}"
    labels = (("gpu", str(device.index)), ("model", device.model), ("node", node.name), ("uuid", device.uuid))
    group = f"node {node.name}"
    return _Names(device, several, device_subject(device.uuid), printable(called), _printable(labels), group)


def node_subjects(
    view: View, contacts: Collection[NodeContact], obstacles: Mapping[str, str], now: float
) -> Iterator[Subject]:
    """Yield a subject for every expected node. `obstacles` are the reasons that keep jobs from starting, by node; ""
    stands for the ledger.
    """
    unheard = {contact.node for contact in contacts if contact.last_seen_at is None}
    for name in sorted({*view.nodes, *(contact.node for contact in contacts), *view.silences}):
        readings: dict[str, float | str | None] = {
            "node": name,
            **_silence(view.silences.get(name), name in unheard, now),
            "starts_blocked": int(name in obstacles or "" in obstacles),
        }
        called = f"node {printable(name)}"
        yield Subject(called, called, readings, _printable((("node", name),)), group=called)


def _silence(silence: Silence | None, unheard: bool, now: float) -> dict[str, int | None]:
    """Return whether a node is silent and whether it is gone, as 0 or 1.

    The values are None (unknown) at first for a node that was not heard since the server started.
    """
    if silence is None or silence.answers:
        return {"silent": 0, "gone": 0}
    if unheard and not silence.gone:
        return {"silent": 1 if now - silence.since >= JOINING_S else None, "gone": None}
    return {"silent": 1, "gone": int(silence.gone)}


def _measured(sample: DeviceSample) -> dict[str, float | str | None]:
    used, total = sample.memory_used_mib, sample.memory_total_mib
    return {
        "temperature_c": sample.temperature_c,
        "utilization_pct": sample.utilization_pct,
        "memory_used_pct": None if used is None or not total else 100 * used / total,
        "memory_used_mib": used,
        "memory_free_mib": sample.memory_free_mib,
        "memory_bandwidth_pct": sample.memory_bandwidth_pct,
        "power_w": None if sample.power_mw is None else sample.power_mw / _MW_PER_W,
        "sm_clock_mhz": sample.sm_clock_mhz,
        "mem_clock_mhz": sample.mem_clock_mhz,
        "ecc_errors": sample.ecc_errors,
        "xid": sample.xid,
        "throttled": None if sample.throttle is None else _is_slowed(sample.throttle),
    }


def _is_slowed(throttle: int) -> int:
    return int(bool(throttle) and not SLOWING.isdisjoint(throttle_reasons(throttle)))


def _standing(view: View, uuid: str, *, heard: bool) -> dict[str, int | None]:
    """Return whether the device is unreadable, and whether it is unhealthy, as 0 or 1; None if that is unknown.

    What is recorded of its health is known of a device on a silent node, too.
    """
    condition, health = view.conditions.get(uuid), view.health.get(uuid)
    if condition is None:
        condition, heard = DeviceCondition(uuid, health=health), False
    unhealthy = int(condition.sick) if heard or condition.sick else None
    return {"unreadable": int(condition.unreadable is not None) if heard else None, "unhealthy": unhealthy}


def _printable(labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, printable(value)) for name, value in labels)
