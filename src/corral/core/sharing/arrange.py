"""The site's sharing of devices: the means of each device, and MIG slices that are allocated like devices."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from corral.core.model.devices.device import Device, Node, VirtualLayer
from corral.core.model.devices.means import ClientLimits, Means
from corral.core.model.devices.model_and_profile_match import model_matches
from corral.vendors.registry import vendor_of

T = TypeVar("T")

ANY = "*"
"""The rule for every device that no other rule names."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The site's rules for sharing.

    Attributes:
        rules: (which, means) pairs; `which` is a UUID, an index, words of a model's name, or ANY. A UUID takes
            precedence over an index, an index over a model, a model over ANY. Of equal rules the first counts.
        layers: (which, layer) pairs of the same kind: the software that makes virtual GPUs of devices.
        one_user: whether an MPS device serves one Unix user at a time.
        clients: the limits that the daemon of an MPS device sets.
        unfit: why MPS cannot run on a device, for a person; None if it can.
        unhooked: why no library limits jobs on a device, for a person; None if one does.
    """

    rules: tuple[tuple[str, Means], ...] = ()
    layers: tuple[tuple[str, VirtualLayer], ...] = ()
    one_user: Callable[[Device], bool] = lambda _: True
    clients: Callable[[Device], ClientLimits] = lambda _: ClientLimits()
    unfit: Callable[[Node, Device], str | None] = lambda node, device: vendor_of(device).unfit(node, device)

    unhooked: Callable[[Device], str | None] = lambda _: None

    def node(self, node: Node) -> Node:
        """The node with the means of each device set, and each slice added as a device.

        A device on which the site's MPS or hook cannot work is exclusive instead: jobs must not share it without the
        expected protection. `refusals` says why.
        """
        devices = [self._device(node, device) for device in node.devices]
        return replace(node, devices=(*devices, *_slices(devices)))

    def refusals(self, node: Node) -> tuple[str, ...]:
        """Sentences on why devices are not shared as the site asks, and how they are shared instead: one for each
        reason.
        """
        alike: dict[tuple[str, bool], list[str]] = {}
        for device in node.devices:
            if device.parent_uuid is None:
                why = self._impossible(node, device, self.means_asked(device))
                if why is not None:
                    alike.setdefault((why, device.mig_enabled is True), []).append(str(device.index))
        return tuple(
            f"GPU {', '.join(indices)}: {why}; {_instead(len(indices), sliced=sliced)}"
            for (why, sliced), indices in alike.items()
        )

    def means_asked(self, device: Device) -> Means:
        """The means that the rules give a device; TIMESLICE if no rule names it."""
        return _rule_of(self.rules, device) or Means.TIMESLICE

    def _impossible(self, node: Node, device: Device, means: Means) -> str | None:
        if means is Means.HOOK:
            return self.unhooked(device)
        return self.unfit(node, device) if means is Means.MPS else None

    def _device(self, node: Node, device: Device) -> Device:
        device = replace(device, virtual=_rule_of(self.layers, device))
        if device.mig_enabled:
            return replace(device, means=Means.MIG)
        means = self.means_asked(device)
        if means is Means.MIG or self._impossible(node, device, means) is not None:
            means = Means.EXCLUSIVE
        if means is not Means.MPS:
            return replace(device, means=means)
        return replace(device, means=means, one_user=self.one_user(device), clients=self.clients(device))


def idle_rules(names: Iterable[str], devices: Sequence[Device]) -> tuple[str, ...]:
    """The names in rules that match none of these devices, in order; slices follow the rule of their device."""
    whole = [device for device in devices if device.parent_uuid is None]
    known = {ANY, *(name for device in whole for name in (device.uuid, str(device.index)))}
    return tuple(
        which for which in names if which not in known and not any(_is_model(which, device) for device in whole)
    )


def _rule_of(rules: Sequence[tuple[str, T]], device: Device) -> T | None:
    by_which = dict(reversed(rules))
    for name in (device.uuid, str(device.index)):
        if name in by_which:
            return by_which[name]
    models = (which for which, _ in rules if which != ANY)
    model = next((which for which in models if _is_model(which, device)), ANY)
    return by_which.get(model)


def _instead(count: int, *, sliced: bool) -> str:
    """The part of a sentence that says how devices without MPS are shared instead."""
    if sliced:
        return "only slices are allocated"
    return "it is allocated whole" if count == 1 else "they are allocated whole"


def _is_model(which: str, device: Device) -> bool:
    return not which.isdigit() and model_matches((which,), device.model)


def _slices(devices: Sequence[Device]) -> list[Device]:
    """The partitions of sliced devices as devices, with indices after the last one."""
    index = max((device.index for device in devices), default=-1)
    slices = []
    for device in devices:
        for partition in device.partitions:
            index += 1
            slices.append(
                replace(
                    device,
                    uuid=partition.uuid,
                    index=index,
                    memory_mib=partition.memory_mib,
                    partitions=(),
                    files=partition.files,
                    links=(),
                    power_limit_mw=None,
                    power_range_mw=None,
                    mig_profile=partition.profile,
                    parent_uuid=device.uuid,
                    slice_milli=vendor_of(device).slice_milli(partition.profile, partition.memory_mib, device),
                )
            )
    return slices
