"""When devices fall ill, and when they are well again: from observations, which the journal does not have. Pure."""

from collections.abc import Iterator, Sequence

from corral.core.control.events.rows_of_facts import MOST_CHARACTERS, Row, Told
from corral.core.model.devices.device import DeviceCondition
from corral.core.model.fact import ConditionObserved, Delta
from corral.core.model.view import View

WELL = "well"


def changes_of_condition(before: View, deltas: Sequence[Delta]) -> Iterator[Told]:
    """What became of devices that are not as well, or as ill, as in `before`; those of which it is the same together.

    That a reason changes is not told: it may have a number in it that moves with each sample.
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
    """Of a device that was never sampled nothing was told: if it is well, that is no news."""
    if condition is None:
        return WELL
    if condition.unreadable is not None:
        return "unreadable"
    return WELL if condition.unhealthy is None else "unhealthy"
