"""Compares what a kubelet has given to pods with what the ledger says, and chooses what each launch has. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from corral.core.model.devices.device import Device
from corral.core.model.placing.allocation import Grant
from corral.core.model.printable import printable
from corral.core.model.units import MILLI_PER_DEVICE, count_of
from corral.core.ports.job_devices import LaunchDevices
from corral.engines.kubernetes.agent.agent_report import AgentReport
from corral.engines.kubernetes.inventory.devices import is_counted
from corral.engines.kubernetes.inventory.occupants import PodName

NUMBERED = "::"
"""The text between the UUID of a device and the number of a part of it, in the ids of device plugins."""

_SHOWN = 8


def whole_devices(report: AgentReport) -> list[Device]:
    """Return the devices of a report without slices of them, which pods get by other resources."""
    return [device for device in report.node.devices if device.parent_uuid is None]


def given_to_pods(report: AgentReport) -> dict[PodName, tuple[str, ...]]:
    """Return the UUIDs of the report's whole devices that its kubelet has given to each pod. A pod with a slice has the
    device of the slice.
    """
    whole = {device.uuid for device in whole_devices(report)}
    device_of = {device.uuid: device.parent_uuid or device.uuid for device in report.node.devices}
    found: dict[PodName, dict[str, None]] = {}
    for one in report.given or ():
        uuids = (device_of.get(device_id.partition(NUMBERED)[0]) for device_id in one.device_ids)
        # A slice of a slice would be of no whole device.
        if here := {uuid: None for uuid in uuids if uuid in whole}:
            found.setdefault((one.namespace, one.pod), {}).update(here)
    for share in report.shares:
        if (uuid := device_of.get(share.device_uuid)) in whole:
            found.setdefault((share.namespace, share.pod), {})[uuid] = None
    return {pod: tuple(uuids) for pod, uuids in found.items()}


@dataclass(slots=True)
class Assignment:
    """Chooses the devices of the launches on one node: `choose` is a `corral.core.ports.job_devices.Choose`.

    A launch has what its pod was given, if that is as good as what was chosen for it. The others keep theirs, and get
    devices of the same kind in place of those that are gone or that somebody else was given.

    Attributes:
        devices: the node's devices by UUID.
        given: the devices that the pods of running launches were given, by launch id.
        taken: devices of pods that are no jobs.
        disagreements: why a launch cannot have what it was given, by launch id; `choose` sets it anew.
    """

    devices: Mapping[str, Device]
    given: Mapping[str, Sequence[str]] = field(default_factory=dict)
    taken: Collection[str] = ()
    disagreements: dict[str, str] = field(default_factory=dict)
    _milli: Counter[str] = field(default_factory=Counter)
    _mib: Counter[str] = field(default_factory=Counter)
    _moved: dict[str, str] = field(default_factory=dict)
    """Where the first part of a device that is no longer there went: its other parts go there too."""

    def choose(self, launches: Sequence[LaunchDevices]) -> dict[str, tuple[Device, ...]]:
        """Return the launches whose devices change, with the devices that they have instead."""
        ordered = sorted(launches, key=lambda one: one.launch_id)
        staying: set[str] = set()
        while True:
            chosen = self._chosen(ordered, staying)
            stuck = {one.launch_id for one in ordered} - chosen.keys()
            if not stuck:
                break
            # What cannot move keeps its devices, so nobody else may move there.
            staying |= stuck
        return {
            one.launch_id: tuple(self.devices[uuid] for uuid in chosen[one.launch_id])
            for one in ordered
            if list(chosen[one.launch_id]) != [grant.uuid for grant in one.grants]
        }

    def _chosen(self, launches: Sequence[LaunchDevices], staying: Collection[str]) -> dict[str, Sequence[str]]:
        """Return the devices of the launches for which there are some; those that are `staying` have their own."""
        self.disagreements, self._milli, self._mib, self._moved = {}, Counter(), Counter(), {}
        chosen: dict[str, Sequence[str]] = {}
        for one in launches:
            if one.launch_id in staying:
                chosen[one.launch_id] = uuids = [grant.uuid for grant in one.grants]
                self._use(one.grants, uuids)
        for step in (self._as_given, self._kept, self._elsewhere):
            for one in launches:
                found = None if one.launch_id in chosen else step(one)
                if found is not None:
                    chosen[one.launch_id] = found
                    self._use(one.grants, found)
        return chosen

    def _as_given(self, launch: LaunchDevices) -> Sequence[str] | None:
        given = self.given.get(launch.launch_id)
        if not given or not launch.grants:
            return None
        planned = [grant.uuid for grant in launch.grants]
        if set(given) == set(planned):
            return planned
        why = self._unlike(planned, given)
        uuids = [] if why is not None else self._in_order(planned, given)
        if why is None and not self._have_room(launch.grants, uuids):
            why = "another job has it too"
        if why is not None:
            self.disagreements[launch.launch_id] = (
                f"its node gave it GPU {_named(given)}, and it was to have GPU {_named(planned)}: {why}"
            )
            return None
        return uuids

    def _unlike(self, planned: Sequence[str], given: Sequence[str]) -> str | None:
        if len(given) != len(planned):
            return f"these are {count_of(len(given), 'GPU')}, not {len(planned)}"
        known = [self.devices[uuid] for uuid in planned if uuid in self.devices]
        lacking = Counter(map(_kind, known)) - Counter(_kind(self.devices[uuid]) for uuid in given)
        if not lacking:
            return None
        return "these are not alike, and no pod of a like request can have got the other"

    def _in_order(self, planned: Sequence[str], given: Sequence[str]) -> list[str]:
        """Return the given devices: each that was planned in its place, the others in those of their like."""
        left = [uuid for uuid in given if uuid not in planned]
        found: list[str] = []
        for uuid in planned:
            if uuid in given:
                found.append(uuid)
                continue
            old = self.devices.get(uuid)
            like = [one for one in left if old is None or _kind(self.devices[one]) == _kind(old)] or left
            found.append(like[0])
            left.remove(like[0])
        return found

    def _kept(self, launch: LaunchDevices) -> Sequence[str] | None:
        planned = [grant.uuid for grant in launch.grants]
        return planned if all(map(self._usable, planned)) and self._have_room(launch.grants, planned) else None

    def _elsewhere(self, launch: LaunchDevices) -> Sequence[str] | None:
        """Return the devices of a launch some of whose own are not there, or are others'. None if there are none."""
        found: list[str] = []
        for grant in launch.grants:
            of_kind = self.devices.get(grant.uuid)
            if of_kind is None and is_counted(grant.uuid) is self._by_count:
                return None  # the device is gone, and no other is the one that the job has
            likes = [
                uuid
                for uuid, device in self.devices.items()
                if uuid not in found and self._usable(uuid) and (of_kind is None or _kind(device) == _kind(of_kind))
                if self._have_room([grant], [uuid])
            ]
            if not likes:
                return None
            first = self._moved.get(grant.uuid)
            idle = [uuid for uuid in likes if not self._milli[uuid]]
            where = grant.uuid if grant.uuid in likes else first if first in likes else (idle or likes)[0]
            if of_kind is None:
                self._moved.setdefault(grant.uuid, where)
            found.append(where)
        return found

    @property
    def _by_count(self) -> bool:
        return any(map(is_counted, self.devices))

    def _usable(self, uuid: str) -> bool:
        return uuid in self.devices and uuid not in self.taken

    def _have_room(self, grants: Sequence[Grant], uuids: Sequence[str]) -> bool:
        for grant, uuid in zip(grants, uuids, strict=True):
            memory_mib = self.devices[uuid].memory_mib
            if self._milli[uuid] + grant.share_milli > MILLI_PER_DEVICE:
                return False
            if grant.memory_mib and memory_mib is not None and self._mib[uuid] + grant.memory_mib > memory_mib:
                return False
        return True

    def _use(self, grants: Sequence[Grant], uuids: Sequence[str]) -> None:
        for grant, uuid in zip(grants, uuids, strict=True):
            self._milli[uuid] += grant.share_milli
            self._mib[uuid] += grant.memory_mib or 0


def _kind(device: Device) -> tuple[str, int | None, str | None, str]:
    return device.model, device.memory_mib, device.mig_profile, device.vendor


def _named(uuids: Sequence[str]) -> str:
    shown = ", ".join(printable(uuid) for uuid in uuids[:_SHOWN])
    return shown + (", ..." if len(uuids) > _SHOWN else "")
