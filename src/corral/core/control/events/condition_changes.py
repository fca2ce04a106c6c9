"""Events when devices become unhealthy or well again. They come from observations, which the journal does not have.
Pure.
"""

from collections.abc import Iterator, Sequence

from corral.core.control.events.rows_of_facts import MOST_CHARACTERS, Row, Told
from corral.core.model.devices.device import DeviceCondition
from corral.core.model.fact import ConditionObserved, Delta
from corral.core.model.view import View

WELL = "well"


def changes_of_condition(before: View, deltas: Sequence[Delta]) -> Iterator[Told]:
    """Yield the changes of condition of devices since `before`. Devices with the same new condition are in one event.

    A change of the reason alone is no event: the reason may contain a number that changes with each sample.
    """
    latest = {delta.condition.uuid: delta.condition for delta in deltas if isinstance(delta, ConditionObserved)}
    rows: dict[str, list[Row]] = {}
    for uuid, condition in latest.items():
        what = _kind_of(condition)
        if what != _kind_of(before.conditions.get(uuid)):
            reason = (condition.unreadable or condition.unhealthy or "")[:MOST_CHARACTERS] or None
            rows.setdefault(what, []).append({"uuid": uuid, "reason": reason})
    for what, of_devices in rows.items():
        yield Told(what, tuple(of_devices))


def _kind_of(condition: DeviceCondition | None) -> str:
    """Return the kind of a condition. A device that was never sampled counts as well."""
    if condition is None:
        return WELL
    if condition.unreadable is not None:
        return "unreadable"
    return WELL if condition.unhealthy is None else "unhealthy"
