"""Backend.ai's `resource.txt`: the resources of one running job, as KEY=VALUE lines.

The text is a pure value here; the caller that writes the file does so atomically.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from corral.core.model.placing.allocation import Grant
from corral.core.model.units import DECIMAL, MILLI_PER_DEVICE, format_share

SHARES_SLOT = "cuda.shares"
DEVICE_SLOT = "cuda.device"
_MIG_SLOT = "cuda.device:"
_SHARES_SUFFIX = "_SHARES"
_REQUIRED = ("SCRATCH_SIZE", "MOUNTS", "SLOTS")
_OPTIONAL = ("UNIFIED_DEVICES",)
_NUMBER = re.compile(DECIMAL)


@dataclass(frozen=True, slots=True)
class ResourceFile:
    """The content of the file. Amounts of slots are kept as written; `shares` is by slot, then by device id."""

    slots: tuple[tuple[str, str], ...]
    shares: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    mounts: tuple[str, ...] = ()
    scratch_size: str = "0m"

    def allocated_milli(self, *, with_slices: bool = False) -> dict[str, int]:
        """The milli-GPU by device id: `cuda.shares` and `cuda.device` together, as Backend.ai counts them.

        Slices have slots of their own. `with_slices` counts each of them as a whole. Parts of a hundredth are dropped.
        """
        allocated: dict[str, int] = {}
        for slot, amounts in self.shares:
            if slot in (SHARES_SLOT, DEVICE_SLOT) or (with_slices and slot.startswith(_MIG_SLOT)):
                for device_id, amount in amounts:
                    allocated[device_id] = allocated.get(device_id, 0) + _milli(amount)
        return allocated


@dataclass(frozen=True, slots=True)
class BadText:
    """The reason why a text is not a resource file of this format."""

    reason: str


def mig_slot(profile: str) -> str:
    """Backend.ai's name for slices of a profile: "cuda.device:10g-mig" of "1g.10gb", and of "10g"."""
    name = profile.lower()
    memory = name.partition(".")[2].partition("+")[0] or name
    return f"{_MIG_SLOT}{memory.removesuffix('b')}-mig"


def mount_entry(source: str, target: str, *, read_only: bool) -> str | None:
    """The entry for a directory as Backend.ai writes it; None if the path has a comma, which separates entries."""
    entry = f"{source}:{target}:{'ro' if read_only else 'rw'}"
    return None if "," in entry else entry


def resource_file(
    grants: Sequence[Grant],
    *,
    cpu_milli: int = 0,
    host_memory_mib: int = 0,
    mig_profile: str | None = None,
    mounts: tuple[str, ...] = (),
    scratch_mib: int = 0,
) -> ResourceFile:
    """The file of a job with these grants; with `mig_profile` they are slices.

    Whole devices are `cuda.device`, slices `cuda.device:10g-mig`, anything else `cuda.shares`. `mounts` are entries
    from `mount_entry`. `scratch_mib` is the part of its node's disk that the job asked for, 0 if none.
    """
    slots = []
    shares: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    if grants:
        whole = all(grant.share_milli == MILLI_PER_DEVICE for grant in grants)
        slot = (DEVICE_SLOT if whole else SHARES_SLOT) if mig_profile is None else mig_slot(mig_profile)
        slots.append((slot, format_share(sum(grant.share_milli for grant in grants))))
        shares.append((slot, tuple((grant.uuid, format_share(grant.share_milli)) for grant in grants)))
    if cpu_milli:
        slots.append(("cpu", format_share(cpu_milli)))
    if host_memory_mib:
        slots.append(("mem", f"{host_memory_mib}m"))
        shares.append(("mem", (("root", f"{host_memory_mib}m"),)))
    return ResourceFile(tuple(slots), tuple(shares), mounts, f"{scratch_mib}m")


def render(file: ResourceFile) -> str:
    """The text of the file, ending in a newline."""
    lines = [
        f"SCRATCH_SIZE={file.scratch_size}",
        f"MOUNTS={','.join(file.mounts)}",
        f"SLOTS={json.dumps(dict(file.slots))}",
        "UNIFIED_DEVICES=[]",
    ]
    for slot, amounts in file.shares:
        lines.append(f"{slot.upper()}{_SHARES_SUFFIX}={','.join(f'{device}:{amount}' for device, amount in amounts)}")
    return "\n".join(lines) + "\n"


def parse(text: str) -> ResourceFile | BadText:
    """Parse a text. Return why it cannot be trusted if it is truncated, of another version, or malformed.

    A text without a final newline counts as truncated unless its devices add up to its slots. Only the beginning of the
    reason is for people: it quotes the text.
    """
    fields: dict[str, str] = {}
    shares: dict[str, tuple[tuple[str, str], ...]] = {}
    for key, value, problem in _lines(text):
        if problem or key in fields:
            return BadText(problem or f"{key} is there twice")
        fields[key] = value
        if key.endswith(_SHARES_SUFFIX):
            amounts = _amounts(key, value)
            if isinstance(amounts, BadText):
                return amounts
            shares[key.removesuffix(_SHARES_SUFFIX).lower()] = amounts
        elif key not in (*_REQUIRED, *_OPTIONAL):
            return BadText(f"{key} is no field of this format; the file may be of another version")
    for key in _REQUIRED:
        if key not in fields:
            return BadText(f"{key} is missing; the file may be truncated")
    slots = _slots(fields["SLOTS"])
    if isinstance(slots, BadText):
        return slots
    mounts = tuple(mount for mount in fields["MOUNTS"].split(",") if mount)
    file = ResourceFile(slots, tuple(shares.items()), mounts, fields["SCRATCH_SIZE"])
    problem = _disagreement(file, complete=text.endswith("\n"))
    return BadText(problem) if problem else file


def _lines(text: str) -> Iterator[tuple[str, str, str | None]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        yield key.strip(), value.strip(), None if equals else f"line {number} is not KEY=VALUE: {line[:40]!r}"


def _amounts(key: str, value: str) -> tuple[tuple[str, str], ...] | BadText:
    amounts: dict[str, str] = {}
    for entry in value.split(",") if value else ():
        device_id, colon, amount = entry.strip().partition(":")
        if ":" in amount:
            return BadText(f"{key}: the id in {entry!r} has a colon, which no id may have")
        if not device_id or not colon or not amount:
            return BadText(f"{key}: {entry!r} is not ID:AMOUNT; the file may be truncated")
        if key.startswith("CUDA.") and not _NUMBER.fullmatch(amount):
            return BadText(f"{key}: {amount!r} of {device_id} is not an amount; the file may be truncated")
        if device_id in amounts:
            return BadText(f"{key}: {device_id} is there twice")
        amounts[device_id] = amount
    return tuple(amounts.items())


def _slots(text: str) -> tuple[tuple[str, str], ...] | BadText:
    # The text must be one flat object: deep nesting could exceed the stack of Python's parser.
    if text.count("{") + text.count("[") > 1:
        return BadText("SLOTS has lists or objects within; the file may be of another version")
    try:
        slots = json.loads(text)
    except ValueError:
        return BadText("SLOTS is not JSON; the file may be truncated")
    if not isinstance(slots, dict):
        return BadText("SLOTS is not a JSON object; the file may be of another version")
    for slot, amount in slots.items():
        if slot.startswith("cuda.") and not (isinstance(amount, str) and _NUMBER.fullmatch(amount)):
            return BadText(
                f"SLOTS: {amount!r} of {slot} is not an amount in quotes; the file may be of another version"
            )
    return tuple((slot, str(amount)) for slot, amount in slots.items())


def _disagreement(file: ResourceFile, *, complete: bool) -> str | None:
    """A sentence on how the devices differ from the slots, None if they agree. A lower sum is rounding if the text is
    `complete`.
    """
    shares = dict(file.shares)
    for slot, declared in file.slots:
        if not slot.startswith("cuda.") or _milli(declared) == 0:
            continue
        if slot not in shares:
            return f"SLOTS has {declared} of {slot} and no device gives it; the file may be truncated"
        given = sum(_milli(amount) for _, amount in shares[slot])
        if given > _milli(declared) or (given < _milli(declared) and not complete):
            return (
                f"SLOTS has {declared} of {slot} and its devices give {format_share(given)}; the file may be truncated"
            )
    return None


def _milli(amount: str) -> int:
    whole, _, part = amount.partition(".")
    return int(whole) * MILLI_PER_DEVICE + int((part + "00")[:2]) * 10
