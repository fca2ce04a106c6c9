import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.ledger.table_rows import fact_from_plain, fact_to_plain
from corral.core.model import fact
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.wire import MAX_FLOAT, MAX_INTEGER

st.register_type_strategy(int, st.integers(-MAX_INTEGER, MAX_INTEGER))
st.register_type_strategy(float, st.floats(-MAX_FLOAT, MAX_FLOAT))


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.builds(fact.JobSubmitted) | st.builds(fact.AllocationMade) | st.builds(fact.DeviceCordoned))
def test_every_fact_survives_the_journal(what: fact.Fact) -> None:
    assert fact_from_plain(json.loads(json.dumps(fact_to_plain(what)))) == what


def test_the_changes_of_a_job_come_back_as_the_types_of_its_fields() -> None:
    changed = fact.JobChanged(
        "7", {"phase": Phase.RUNNING, "devices": ("GPU-1",), "started_at": 4.0}, at=5.0, by="test"
    )
    assert fact_from_plain(json.loads(json.dumps(fact_to_plain(changed)))) == changed


def test_how_a_job_made_room_comes_back_from_the_journal() -> None:
    told = Eviction(EvictionRule.POOL_RECLAIM, "9", "pool lab takes back", 4.0, "7.1", lender="lab", saves=True)
    changed = fact.JobChanged("7", {"phase": Phase.STOPPING, "eviction": told}, at=4.0, by="test")
    freed = fact.AllocationEnded("7.1", "7", at=9.0, lost_from=4.0, by="test")
    for what in (changed, freed):
        assert fact_from_plain(json.loads(json.dumps(fact_to_plain(what)))) == what


def test_a_journal_from_before_losses_were_kept_is_read() -> None:
    entry = {"fact": "AllocationEnded", "allocation_id": "7.1", "job_id": "7", "at": 9.0}
    assert fact_from_plain(entry) == fact.AllocationEnded(
        "7.1", "7", at=9.0, lost_from=None, by=fact.ServerPart.UNRECORDED
    )
