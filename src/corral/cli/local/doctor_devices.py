"""The findings of `corral doctor` about GPUs and nodes: whether all are present and healthy."""

from collections.abc import Sequence

from corral.cli.tables.device_tables import ill, state_in_words
from corral.client import DeviceRow, NodeRow
from corral.core.model.units import count_of
from corral.formatting.check_result import OK, WARNING, CheckResult
from corral.formatting.device_names import device_called, several_nodes


def devices_finding(
    rows: Sequence[DeviceRow], source: str, *, unopened: Sequence[str] = (), described: bool = False
) -> CheckResult:
    """Whether all GPUs are healthy; which are not, and what to do.

    `source` is appended to the number of GPUs and says where they were found. `unopened` lists GPUs that cannot be
    opened.
    """
    whole = [row for row in rows if row.parent is None]
    sick = [row for row in whole if ill(row)]
    several = several_nodes(whole)
    found = f"{count_of(len(whole), 'GPU')}{source}"
    if not sick and not unopened:
        apart = [row for row in whole if row.state == "cordoned"]
        return CheckResult("GPUs", OK, found + (f"; cordoned: GPU {_called(apart, several)}" if apart else ""))
    named = [f"GPU {device_called(row, several)} ({row.name}) is {state_in_words(row)}" for row in sick]
    return CheckResult("GPUs", WARNING, "; ".join([found, *named, *unopened]), _advice(sick, unopened, described))


def _advice(sick: Sequence[DeviceRow], unopened: Sequence[str], described: bool) -> str:
    if described:
        return "nothing starts there; change the file given to --mock"
    parts = []
    if unopened or any(row.state == "unreadable" for row in sick):
        parts.append(
            "unreadable GPUs: `sudo dmesg | grep -i xid` may show why; reset them "
            "(sudo nvidia-smi --gpu-reset -i INDEX) or restart the machine"
        )
    if any(row.state == "quarantined" for row in sick):
        parts.append("quarantined GPUs: check the cooling or reset them, as the reason says")
    return "; ".join([*parts, "nothing starts there until they recover, which is noticed automatically"])


def _called(rows: Sequence[DeviceRow], several: bool) -> str:
    return ", ".join(device_called(row, several) for row in rows)


def nodes_finding(rows: Sequence[NodeRow]) -> CheckResult:
    """Whether jobs may start on every node; on which they may not, and what to do."""
    found = count_of(len(rows), "node")
    closed = [row for row in rows if row.state != "ready"]
    if not closed:
        return CheckResult("nodes", OK, f"{found}, all ready" if len(rows) > 1 else f"{found}, ready")
    named = [f"{row.name} is {row.state}" + (f": {row.reason}" if row.reason else "") for row in closed]
    lost = any(row.state in ("silent", "gone") for row in closed)
    advice = "see that `corral agent` runs on silent nodes, and that they can be reached" if lost else ""
    given = "give nodes back with `corral uncordon NODE`" if any(row.state == "cordoned" for row in closed) else ""
    return CheckResult("nodes", WARNING, "; ".join([found, *named]), "; ".join(filter(None, (advice, given))))
