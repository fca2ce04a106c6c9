from corral.core.control.events.device_events import changes_of_condition
from corral.core.model.devices.device import DeviceCondition
from corral.core.model.fact import ConditionObserved
from corral.core.model.view import View

HOT = DeviceCondition("GPU-1", unhealthy="it is at 93°C; at most 90°C is allowed")
LOST = DeviceCondition("GPU-1", unreadable="the driver does not answer")
WELL = DeviceCondition("GPU-1", utilization_pct=50)


def told(before: DeviceCondition | None, *after: DeviceCondition) -> list[tuple[str, object]]:
    view = View() if before is None else View(conditions={before.uuid: before})
    found = changes_of_condition(view, [ConditionObserved(condition) for condition in after])
    return [(one.what, one.rows) for one in found]


def test_a_device_that_falls_ill_is_told_with_the_reason_and_one_that_is_well_again_without() -> None:
    assert told(WELL, HOT) == [("unhealthy", ({"uuid": "GPU-1", "reason": HOT.unhealthy},))]
    assert told(HOT, LOST) == [("unreadable", ({"uuid": "GPU-1", "reason": LOST.unreadable},))]
    assert told(LOST, WELL) == [("well", ({"uuid": "GPU-1", "reason": None},))]


def test_what_is_as_it_was_or_was_ill_for_no_publication_is_not_told() -> None:
    assert told(None, WELL) == []
    assert told(HOT, DeviceCondition("GPU-1", unhealthy="it is at 94°C; at most 90°C is allowed")) == []
    assert told(WELL, HOT, WELL) == []


def test_devices_of_which_it_is_the_same_are_told_together() -> None:
    lost = [DeviceCondition(f"GPU-{at}", unreadable="the node is silent") for at in range(3)]
    ((what, rows),) = told(None, *lost)
    assert (what, [row["uuid"] for row in rows]) == ("unreadable", ["GPU-0", "GPU-1", "GPU-2"])  # type: ignore[attr-defined]
