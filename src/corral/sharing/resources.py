"""From a neighbour's resource names to what is asked of Corral. What each name means is data (`resources.toml`)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache

from corral.model.ask import HOST_RESOURCES, Ask, host_amounts
from corral.model.errors import Refused
from corral.model.means import Means
from corral.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI, format_share, parse_amount
from corral.sharing.definitions import Catalogue, Quantity, Resource, load_catalogue


@dataclass(frozen=True, slots=True)
class _Amount:
    """One key with its amount. `star` is what the star of its definition stands for."""

    key: str
    resource: Resource
    star: str
    number: Fraction

    @property
    def in_units(self) -> Fraction:
        return self.number * self.resource.grants.unit

    @property
    def whole_devices(self) -> int | None:
        """How many whole devices a share of this size is, None when it is a part of one."""
        whole_at = self.resource.grants.whole_at
        return int(self.number // whole_at) if whole_at and self.number >= whole_at else None


def to_ask(
    limits: Mapping[str, str], requests: Mapping[str, str] | None = None, *, catalogue: Catalogue | None = None
) -> Ask:
    """What a workload's resources ask for; everything is rounded down, and `notes` says where.

    A workload that names no GPU resource asks for none. What is passed over is said in the notes.
    Raises Refused, naming the key, for unknown keys, amounts that make no sense, and keys that contradict each other.
    """
    known = catalogue or _own_catalogue()
    every = {**(requests or {}), **limits}
    cpu_milli, host_memory_mib = host_amounts(every)
    stated = _stated(_of_devices(limits), _of_devices(requests or {}), known)
    amounts = {key: _amount(key, text, known) for key, text in sorted(stated.items())}
    asked = Ask(devices=0, share_milli=MILLI_PER_DEVICE)
    if amounts:
        _refuse_contradictions(amounts)
        asked = _combine({amount.resource.grants.quantity: amount for amount in amounts.values()})
    passed_over = tuple(f"{key} means nothing here and is passed over" for key in sorted(known.ignored & every.keys()))
    notes = (*asked.notes, *passed_over)
    return replace(asked, cpu_milli=cpu_milli, host_memory_mib=host_memory_mib, notes=notes)


def _of_devices(amounts: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in amounts.items() if key not in HOST_RESOURCES}


@cache
def _own_catalogue() -> Catalogue:
    return load_catalogue()


def _stated(limits: Mapping[str, str], requests: Mapping[str, str], known: Catalogue) -> dict[str, str]:
    """The GPU keys with their amounts as the policies of their definitions allow, defaults filled in."""
    stated = {}
    for key in sorted({*limits, *requests} - known.ignored):
        resource, _ = known.find(key)
        if key in limits and resource.limits == "disabled":
            raise Refused(f"{key}: is not accepted under limits; state it under requests", field=key)
        if key not in limits and (resource.requests == "disabled" or resource.limits == "required"):
            raise Refused(f"{key}: must be stated under limits, not only under requests", field=key)
        if key in limits and key in requests and requests[key] != limits[key]:
            raise Refused(f"{key}: request {requests[key]} and limit {limits[key]} differ; make them equal", field=key)
        if key not in requests and resource.requests == "required":
            raise Refused(f"{key}: must be stated under requests too", field=key)
        stated[key] = limits.get(key, requests.get(key, ""))
    groups = {known.find(key)[0].group for key in stated}
    for resource in known.resources.values():
        if resource.group in groups and resource.limits == "required" and resource.key not in stated:
            if not resource.default_value:
                raise Refused(f"{resource.key}: is required together with {', '.join(stated)}", field=resource.key)
            stated[resource.key] = resource.default_value
    return stated


def _amount(key: str, text: str, known: Catalogue) -> _Amount:
    resource, star = known.find(key)
    number = parse_amount(text, field=key)
    meaning = resource.grants
    if resource.data_type == "integer" and number.denominator != 1:
        raise Refused(f"{key}: {text} is not a whole number; ask for {max(1, int(number))}", field=key)
    if meaning.most is not None and number > meaning.most:
        raise Refused(f"{key}: {text} is too much; the most that can be asked for is {meaning.most}", field=key)
    if meaning.whole_at is not None and number > meaning.whole_at and number % meaning.whole_at:
        below = int(number // meaning.whole_at * meaning.whole_at)
        raise Refused(
            f"{key}: {text} is neither below {meaning.whole_at} nor a multiple of it; "
            f"ask for {below} or {below + meaning.whole_at}",
            field=key,
        )
    return _Amount(key, resource, star, number)


def _refuse_contradictions(amounts: Mapping[str, _Amount]) -> None:
    first = next(iter(amounts.values()))
    for key, amount in amounts.items():
        if amount.resource.group != first.resource.group:
            raise Refused(
                f"{key}: belongs to {amount.resource.group} and {first.key} to {first.resource.group}; use one of them",
                field=key,
            )
        meaning = amount.resource.grants
        for other in amounts:
            if other != key and any(fnmatchcase(other, pattern) for pattern in meaning.excludes):
                raise Refused(f"{key}: cannot be used together with {other}; remove one of them", field=key)
        below_whole = meaning.with_part if meaning.whole_at and amount.whole_devices is None else None
        for needed in (meaning.needs, below_whole):
            if needed is not None and needed not in amounts:
                raise Refused(f"{key}: needs {needed}, too; give both", field=needed)


def _combine(amounts: Mapping[Quantity, _Amount]) -> Ask:
    means = next((a.resource.grants.means for a in amounts.values() if a.resource.grants.means is not None), None)
    if Quantity.SLICES in amounts:
        slices = amounts[Quantity.SLICES]
        return Ask(int(slices.in_units), MILLI_PER_DEVICE, profile=slices.star, means=Means.MIG)
    notes: list[str] = []
    memory_mib = _whole_units(amounts.get(Quantity.MEMORY), notes)
    memory_percent = _whole_units(amounts.get(Quantity.MEMORY_PERCENT), notes)
    cores_percent = _whole_units(amounts.get(Quantity.CORES), notes)
    devices, share_milli, total_milli = _shape(amounts, memory_percent, cores_percent, notes)
    if share_milli == MILLI_PER_DEVICE:
        limits = [amounts[one] for one in (Quantity.MEMORY, Quantity.MEMORY_PERCENT) if one in amounts]
        notes += [f"{one.key} is left out: a whole GPU is granted with all its memory" for one in limits]
        memory_mib = memory_percent = None
    return Ask(devices, share_milli, total_milli, memory_mib, memory_percent, cores_percent, None, means, tuple(notes))


def _shape(
    amounts: Mapping[Quantity, _Amount], memory_percent: int | None, cores_percent: int | None, notes: list[str]
) -> tuple[int | None, int | None, int | None]:
    """Devices, the share of each, and the share in all: the first two or the last are set."""
    share = amounts.get(Quantity.SHARE)
    if share is not None:
        whole = share.whole_devices
        if whole is not None:
            return whole, MILLI_PER_DEVICE, None
        milli = _share_milli(share, notes)
        return (None, None, milli) if share.resource.grants.splits else (1, milli, None)
    counted = amounts.get(Quantity.DEVICES)
    devices = 1 if counted is None else int(counted.in_units)
    if cores_percent is not None or memory_percent is not None:
        return devices, (cores_percent or memory_percent or 0) * MILLI_PER_DEVICE // 100, None
    return devices, None if Quantity.MEMORY in amounts else MILLI_PER_DEVICE, None


def _share_milli(share: _Amount, notes: list[str]) -> int:
    milli = int(share.in_units // SHARE_QUANTUM_MILLI * SHARE_QUANTUM_MILLI)
    if milli == 0:
        least = format_share(SHARE_QUANTUM_MILLI)
        raise Refused(
            f"{share.key}: {float(share.number):g} is less than {least} of a GPU, the least there is; ask for more",
            field=share.key,
        )
    if milli != share.in_units:
        notes.append(f"{share.key}: {float(share.number):g} is rounded down to {format_share(milli)} of a GPU")
    return milli


def _whole_units(amount: _Amount | None, notes: list[str]) -> int | None:
    if amount is None:
        return None
    units = int(amount.in_units)
    if units == 0:
        raise Refused(
            f"{amount.key}: {float(amount.number):g} is rounded down to nothing; ask for more", field=amount.key
        )
    if units != amount.in_units:
        notes.append(f"{amount.key}: {float(amount.number):g} is rounded down to {units}")
    return units
