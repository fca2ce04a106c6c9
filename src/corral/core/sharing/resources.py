"""Convert resource names of other systems into a request to Corral. The meaning of each name is in `resources.toml`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction

from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.requested_devices import HOST_RESOURCES, Ask, host_amounts
from corral.core.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI, format_share
from corral.core.sharing.definitions import Catalogue, Quantity, Resource, amount_of, own_catalogue


@dataclass(frozen=True, slots=True)
class _Amount:
    """One key with its amount. `star` is the text that the star of its definition matches."""

    key: str
    resource: Resource
    star: str
    number: Fraction

    @property
    def in_units(self) -> Fraction:
        return self.number * self.resource.grants.unit

    @property
    def whole_devices(self) -> int | None:
        """The number of whole devices in a share of this size, None if it is a part of one."""
        whole_at = self.resource.grants.whole_at
        return int(self.number // whole_at) if whole_at and self.number >= whole_at else None

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the resources that a request with this amount must also name."""
        meaning = self.resource.grants
        below_whole = meaning.with_part if meaning.whole_at and self.whole_devices is None else None
        return tuple(needed for needed in (meaning.needs, below_whole) if needed is not None)


def to_ask(stated: Mapping[str, str], *, catalogue: Catalogue | None = None) -> Ask:
    """The demand that a submission's named resources express. Amounts are rounded down, and `notes` says which.

    One amount is both request and limit; "" is the default of the name's definition. A submission that names no GPU
    resource asks for no GPU. The notes also list ignored names.
    Raises Refused, with the key and its description, for unknown keys, for invalid amounts, and for keys that
    contradict each other.
    """
    known = catalogue or own_catalogue()
    try:
        return _ask(stated, known)
    except Refused as refused:
        described = known.resources.get(refused.field or "")
        if described is not None:
            refused.descriptions = described.descriptions
        raise


def _ask(stated: Mapping[str, str], known: Catalogue) -> Ask:
    cpu_milli, host_memory_mib = host_amounts(stated)
    of_devices = {key: text for key, text in stated.items() if key not in (*HOST_RESOURCES, *known.ignored)}
    texts, notes = _with_defaults(of_devices, known)
    amounts = {key: _amount(key, text, known) for key, text in sorted(texts.items())}
    asked = Ask(devices=0, share_milli=MILLI_PER_DEVICE)
    if amounts:
        _refuse_contradictions(amounts)
        asked = _combine({amount.resource.grants.quantity: amount for amount in amounts.values()})
    passed_over = [f"{key} has no meaning here and is ignored" for key in sorted(known.ignored & stated.keys())]
    notes = (*notes, *asked.notes, *passed_over)
    return replace(asked, cpu_milli=cpu_milli, host_memory_mib=host_memory_mib, notes=notes)


def _with_defaults(stated: Mapping[str, str], known: Catalogue) -> tuple[dict[str, str], tuple[str, ...]]:
    """The amounts by name with defaults filled in, and notes on these defaults."""
    texts = {}
    notes = []
    for key, text in sorted(stated.items()):
        resource, _ = known.find(key)
        if not text and not resource.default_value:
            raise Refused(f"{key}: it has no default amount; write {key}=AMOUNT", field=key)
        if not text:
            notes.append(_by_default(resource, key))
        texts[key] = text or resource.default_value
    for resource in _missing(texts, known):
        if not resource.default_value:
            raise Refused(f"{resource.key}: is required together with {', '.join(stated)}", field=resource.key)
        texts[resource.key] = resource.default_value
        notes.append(_by_default(resource, resource.key))
    return texts, tuple(notes)


def _by_default(resource: Resource, key: str) -> str:
    return f"{key}: {resource.default_value}, its default"


def _missing(texts: Mapping[str, str], known: Catalogue) -> list[Resource]:
    """The missing names that must accompany the given ones: their group requires them, or another name needs them.

    Needed names without a default are left to the check of contradictions, whose message says which name needs them.
    """
    groups = {known.find(key)[0].group for key in texts}
    by_policy = [one for one in known.resources.values() if one.required and one.group in groups]
    needed = [known.resources.get(key) for key in _needed(texts, known)]
    by_others = [one for one in needed if one is not None and one.default_value]
    unique = {one.key: one for one in (*by_policy, *by_others)}
    return [one for key, one in unique.items() if not any(one.match(named) is not None for named in texts)]


def _needed(texts: Mapping[str, str], known: Catalogue) -> list[str]:
    """The names that the given names need."""
    amounts = [_amount(key, text, known) for key, text in texts.items()]
    return [needed for amount in amounts for needed in amount.needs]


def _amount(key: str, text: str, known: Catalogue) -> _Amount:
    resource, star = known.find(key)
    return _Amount(key, resource, star, amount_of(resource, key, text))


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
        for needed in amount.needs:
            if needed not in amounts:
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
    """The devices, the share of each, and the total share: the first two or the last are set."""
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
