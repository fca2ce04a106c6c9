from corral.core.model.devices.health import DeviceHealth, Health
from corral.core.model.fact import DeviceHealthChanged
from corral.core.model.slice import LedgerDraft, empty_snapshot
from corral.features.health.facts import MOST_NOTES, HealthNoted
from corral.features.health.slice import HealthSlice


def changed(number: int, uuid: str = "GPU-0") -> DeviceHealthChanged:
    health = DeviceHealth(Health.SUSPECT, f"reason {number}", float(number), noted=1.0)
    return DeviceHealthChanged(uuid, health, (f"sign {number}",), at=float(number), by="test")


def test_the_history_of_a_device_has_its_last_changes_in_order_and_no_more_subjects_than_places() -> None:
    draft, subjects = LedgerDraft(empty_snapshot((HealthSlice,))), set[str | None]()
    for number in range(MOST_NOTES + 7):
        written = draft.take([changed(number)])
        subjects |= {fact.subject for fact in written if isinstance(fact, HealthNoted)}
    notes = draft.freeze().of(HealthSlice).notes["GPU-0"]
    assert [note.reason for note in notes] == [f"reason {number}" for number in range(7, MOST_NOTES + 7)]
    assert len(subjects) == MOST_NOTES


def test_several_changes_in_one_commit_have_places_of_their_own() -> None:
    draft = LedgerDraft(empty_snapshot((HealthSlice,)))
    written = draft.take([changed(1), changed(2), changed(3, "GPU-1")])
    notes = [(fact.uuid, fact.number) for fact in written if isinstance(fact, HealthNoted)]
    assert notes == [("GPU-0", 0), ("GPU-0", 1), ("GPU-1", 0)]
