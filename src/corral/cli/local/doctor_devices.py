"""What `corral doctor` says of the GPUs themselves: whether they are all there, and well."""

from collections.abc import Sequence

from corral.cli.listing import amiss, ill
from corral.cli.local.finding import OK, WARNING, Finding
from corral.client import DeviceRow
from corral.model.units import count_of


def devices_finding(
    rows: Sequence[DeviceRow], told: str, *, unopened: Sequence[str] = (), described: bool = False
) -> Finding:
    """All GPUs are well, or which are not and what to do.

    `told` follows their number and says where they are known from. `unopened` tells of those that are not among them,
    for nobody can open them.
    """
    whole = [row for row in rows if row.parent is None]
    sick = [row for row in whole if ill(row)]
    found = f"{count_of(len(whole), 'GPU')}{told}"
    if not sick and not unopened:
        apart = [row for row in whole if row.state == "cordoned"]
        return Finding("GPUs", OK, found + (f"; set apart: GPU {_indices(apart)}" if apart else ""))
    named = [f"GPU {row.index} ({row.name}) is {amiss(row)}" for row in sick]
    return Finding("GPUs", WARNING, "; ".join([found, *named, *unopened]), _advice(sick, unopened, described))


def _advice(sick: Sequence[DeviceRow], unopened: Sequence[str], described: bool) -> str:
    if described:
        return "nothing starts there; the file given to --mock describes them so"
    parts = []
    if unopened or any(row.state == "unreadable" for row in sick):
        parts.append(
            "one that cannot be read: `sudo dmesg | grep -i xid` may say why; reset it (sudo nvidia-smi --gpu-reset -i "
            "INDEX) or restart the machine"
        )
    if any(row.state == "unhealthy" for row in sick):
        parts.append("one that is unhealthy: see to its cooling, or reset it, as it says")
    return "; ".join([*parts, "nothing starts there until they are well, which is noticed by itself"])


def _indices(rows: Sequence[DeviceRow]) -> str:
    return ", ".join(str(row.index) for row in rows)
