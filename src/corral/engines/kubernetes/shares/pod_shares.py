"""The parts of GPUs for which the containers of a pod ask, by the names of the software that gives them.

One reader for pods that wait, and for pods that have their parts already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.requested_devices import Ask
from corral.core.model.printable import printable
from corral.core.model.units import MILLI_PER_DEVICE, is_whole, parse_share_milli
from corral.core.sharing.definitions import Catalogue, own_catalogue
from corral.core.sharing.resources import to_ask
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resources
from corral.engines.kubernetes.cluster.objects import mapping, sequence, text
from corral.engines.kubernetes.cluster.quantities import BadQuantity, whole
from corral.engines.kubernetes.shares.share_layers import BY_UUID, layer_of_resource, share_layers
from corral.vendors.registry import vendor_named
from corral.vendors.vendor import ShareLayer

Json = Mapping[str, Any]

FRACTION, MEMORY, COUNT = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
"""Annotations that ask for a part of a GPU without a resource: a number below 1, MiB, and the number of GPUs."""

VISIBLE = "corral.dev/visible-devices"
"""The annotation with the UUIDs of the pod's devices, from which a container without a resource takes them."""


@dataclass(frozen=True, slots=True)
class ContainerShare:
    """The request of one container of a pod.

    Attributes:
        position: of the container in the pod, from 0.
        containers: how many the pod has.
        layer: the software whose resource it names; None if annotations of the pod ask for it.
        ask: the demand.
    """

    position: int
    containers: int
    layer: ShareLayer | None
    ask: Ask

    def request(self, conditions: Request) -> Request:
        """Return the request for it, with the conditions of another request. `conditions` ask for no devices."""
        layer, plain = self.layer, replace(conditions, devices=1)
        if layer is None:
            return self.ask.request(replace(plain, offered_as=BY_UUID))
        return self.ask.request(
            replace(plain, offered_as=layer.known_by, min_compute=layer.min_compute, min_cuda=layer.min_cuda)
        )


class HeldShare(NamedTuple):
    """A device, or a part of one, that a pod on a node has.

    Attributes:
        device: its UUID, or its number on the node as a text; None if the pod does not tell.
        share_milli: None if the memory on the device decides it.
        memory_mib, memory_percent: what is granted of its memory; both None for the share's part.
    """

    device: str | None
    share_milli: int | None
    memory_mib: int | None = None
    memory_percent: int | None = None


class PodShares:
    """Reads what pods ask for, by the resource names that a site knows (None: those that come with Corral)."""

    def __init__(self, catalogue: Catalogue | None = None) -> None:
        self.redefine(catalogue or own_catalogue())

    def redefine(self, catalogue: Catalogue) -> None:
        """Read by these resource names from now on."""
        self.catalogue = catalogue
        # A pod states all that it wants: no default is added, for the kubelet would not know of it.
        self._stated = replace(
            self.catalogue, resources={k: replace(v, default_value="") for k, v in self.catalogue.resources.items()}
        )

    def asked(self, spec: Json, notes: Mapping[str, str]) -> ContainerShare | None:
        """Return the part for which a pod asks; None if it asks for none. Raises Refused."""
        found = self._of_containers(spec)
        noted = [name for name in (FRACTION, MEMORY, COUNT) if name in notes]
        if len(found) > 1:
            names = " and ".join(_name_of(spec, one.position) for one in found[:2])
            raise Refused(f"resources: containers {names} both ask for parts of GPUs; let one of them ask for all")
        if found and noted:
            raise Refused(f"{noted[0]}: its containers ask for {_known_by(found[0])}, too; remove one of the two")
        if (found or noted) and (other := _whole_gpus(spec, found)) is not None:
            word = noted[0] if noted else _known_by(found[0])
            raise Refused(f"{word}: it asks for whole GPUs, too ({other}); remove one of the two")
        _refuse_in_init_containers(spec)
        return found[0] if found else _by_notes(spec, notes) if noted else None

    def held(self, spec: Json, notes: Mapping[str, str]) -> tuple[HeldShare, ...]:
        """Return the devices that a pod on a node has by the resources of such software. Raises Refused."""
        held: list[HeldShare] = []
        for one in self._of_containers(spec):
            assert one.layer is not None, "only annotations have none"
            ask, refs = one.ask, one.layer.given(notes).get(one.position, ())
            # One part whose device is unknown may be on any device. Several of one container are on as many devices.
            places: Sequence[str | None] = refs if len(refs) == (ask.devices or 1) else [None]
            held += [HeldShare(place, ask.share_milli, ask.memory_mib, ask.memory_percent) for place in places]
        return tuple(held)

    def whole_held(self, spec: Json, notes: Mapping[str, str], layer: ShareLayer) -> tuple[HeldShare, ...]:
        """Return the devices of containers that name only their number, and so have them whole."""
        if layer.count is None:
            return ()
        held: list[HeldShare] = []
        for position, container in enumerate(sequence(spec.get("containers"))):
            amounts = _amounts(container)
            if layer.count in amounts and not any(name in amounts for name in layer.resources):
                refs, count = layer.given(notes).get(position, ()), _read(layer.count, amounts[layer.count])
                places: Sequence[str | None] = refs if len(refs) == count else [None]
                held += [HeldShare(place, MILLI_PER_DEVICE) for place in places if count]
        return tuple(held)

    def _of_containers(self, spec: Json) -> list[ContainerShare]:
        containers = sequence(spec.get("containers"))
        found = ((place, self._of_container(one)) for place, one in enumerate(containers))
        return [ContainerShare(place, len(containers), *read) for place, read in found if read is not None]

    def _of_container(self, container: Json) -> tuple[ShareLayer, Ask] | None:
        amounts = _amounts(container)
        layers = {layer.name: layer for name in amounts if (layer := _layer_of(name)) is not None}
        if not layers:
            return None
        read = {name: _read(name, amount) for name, amount in amounts.items() if name in _names_of(layers.values())}
        stated = {name: amount for name, amount in read.items() if amount}
        if not any(_layer_of(name) is not None for name in stated):
            return None
        if len(layers) > 1:
            both = " and ".join(sorted(name for name in stated if _layer_of(name) is not None)[:2])
            raise Refused(f"resources: {both} are of different software; ask for those of one")
        (layer,) = layers.values()
        if layer.count is not None and layer.count not in stated:
            words = f"{layer.name} counts GPUs by {layer.count}; add {layer.count}: 1"
            raise Refused(f"{next(iter(stated))}: {words}", field=layer.count)
        if (unfit := _env_refusal(container, layer)) is not None and stated.get(layer.core, 0) < 100:
            raise Refused(f"{layer.known_by}: container {_named(container)} cannot have a part of a GPU: {unfit}")
        return layer, to_ask({name: str(amount) for name, amount in stated.items()}, catalogue=self._stated)


def _layer_of(name: str) -> ShareLayer | None:
    found = layer_of_resource().get(name)
    return None if found is None else found[0]


def vendor_name_of(share: ContainerShare) -> str:
    """Return the name of the vendor of the devices."""
    return next(vendor.name for layer, vendor in share_layers() if share.layer in (None, layer))


def _names_of(layers: Any) -> set[str]:
    return {name for layer in layers for name in (*layer.resources, layer.count) if name is not None}


def _known_by(share: ContainerShare) -> str:
    return "" if share.layer is None else share.layer.known_by


def _amounts(container: Json) -> Json:
    resources = mapping(container.get("resources"))
    return {**mapping(resources.get("limits")), **mapping(resources.get("requests"))}


def _read(name: str, written: object) -> int:
    try:
        amount = whole(written)
    except BadQuantity as error:
        raise Refused(f"{name}: {error}", field=name) from None
    if amount < 0:
        raise Refused(f"{name}: {printable(str(written))[:40]} is below zero; ask for more, or remove it", field=name)
    return amount


def _env_refusal(container: Json, layer: ShareLayer) -> str | None:
    env = {one["name"]: one["value"] for one in sequence(container.get("env")) if _is_literal(one)}
    return layer.env_refusal(env)


def _is_literal(variable: Json) -> bool:
    return text(variable.get("name")) is not None and text(variable.get("value")) is not None


def _name_of(spec: Json, position: int) -> str:
    return _named(sequence(spec.get("containers"))[position])


def _named(container: Json) -> str:
    return printable(str(container.get("name") or "?"))[:60]


def _whole_gpus(spec: Json, found: Sequence[ContainerShare]) -> str | None:
    """Return the resource of whole GPUs for which a container asks beside a part; None if none does."""
    for place, container in enumerate((*sequence(spec.get("containers")), *sequence(spec.get("initContainers")))):
        for name, amount in _amounts(container).items():
            counted = any(one.position == place and one.layer is not None and one.layer.count == name for one in found)
            if name in gpu_resources() and not counted and _read(name, amount):
                return name
    return None


def _refuse_in_init_containers(spec: Json) -> None:
    for container in sequence(spec.get("initContainers")):
        for name in _amounts(container):
            if _layer_of(name) is not None:
                raise Refused(
                    f"{name}: its init container {_named(container)} asks for it, and parts of GPUs are given to "
                    "containers alone; ask for it there",
                    field=name,
                )


def _by_notes(spec: Json, notes: Mapping[str, str]) -> ContainerShare:
    """Return the part for which annotations ask. Nothing gives it to a container that does not take it itself."""
    if FRACTION in notes and MEMORY in notes:
        raise Refused(f"{FRACTION}: {MEMORY} asks for a part, too; remove one of the two", field=FRACTION)
    if FRACTION not in notes and MEMORY not in notes:
        raise Refused(f"{COUNT}: it needs {FRACTION} or {MEMORY}, the part of each GPU", field=COUNT)
    count = _note(notes, COUNT, most=256) if COUNT in notes else 1
    if FRACTION in notes:
        milli = parse_share_milli(notes[FRACTION], field=FRACTION)
        if not 0 < milli < MILLI_PER_DEVICE:
            whole_gpu = " or ".join(gpu_resources())
            raise Refused(
                f"{FRACTION}: {printable(notes[FRACTION])[:40]} is no part of a GPU; write a number above 0 and below "
                f"1, or ask for {whole_gpu} in its limits",
                field=FRACTION,
            )
        ask = Ask(count, milli)
    else:
        ask = Ask(count, None, memory_mib=_note(notes, MEMORY, most=10**9))
    containers = sequence(spec.get("containers"))
    position = next((place for place, one in enumerate(containers) if _takes_devices(one)), None)
    if position is None:
        raise Refused(_why_no_device(FRACTION if FRACTION in notes else MEMORY), field=FRACTION)
    return ContainerShare(position, len(containers), None, ask)


def _note(notes: Mapping[str, str], name: str, *, most: int) -> int:
    written = notes[name].strip()
    if not is_whole(written) or not 1 <= int(written) <= most:
        raise Refused(f"{name}: {printable(written)[:40]!r} is no number from 1 to {most}", field=name)
    return int(written)


def visible_variable() -> str:
    """Return the variable by which a container runtime gives a container its devices."""
    return next(iter(vendor_named("").void))


def _takes_devices(container: Json) -> bool:
    for variable in sequence(container.get("env")):
        ref = mapping(mapping(variable.get("valueFrom")).get("fieldRef"))
        if variable.get("name") == visible_variable() and ref.get("fieldPath") == f"metadata.annotations['{VISIBLE}']":
            return True
    return False


def _why_no_device(word: str) -> str:
    named = next(layer for layer, _ in share_layers())
    return (
        f"{word}: an annotation asks the kubelet for no GPU, so no container would get one; ask in the limits of a "
        f"container, as {named.core}: 50 with {named.memory}: 40, or let it take its GPU from the annotation that "
        f"Corral writes: the variable {visible_variable()} with valueFrom.fieldRef.fieldPath "
        f"metadata.annotations['{VISIBLE}']"
    )


OWN_NAMES = PodShares()
"""The reader by the resource names that come with Corral."""
