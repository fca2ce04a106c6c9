import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.ledger.facts import fact_from_plain, fact_to_plain
from corral.model import fact
from corral.model.job import Phase

st.register_type_strategy(float, st.floats(allow_nan=False))


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.builds(fact.JobSubmitted) | st.builds(fact.AllocationMade) | st.builds(fact.DeviceCordoned))
def test_every_fact_survives_the_journal(what: fact.Fact) -> None:
    assert fact_from_plain(json.loads(json.dumps(fact_to_plain(what)))) == what


def test_the_changes_of_a_job_come_back_as_the_types_of_its_fields() -> None:
    changed = fact.JobChanged("7", {"phase": Phase.RUNNING, "devices": ("GPU-1",), "started_at": 4.0}, at=5.0)
    assert fact_from_plain(json.loads(json.dumps(fact_to_plain(changed)))) == changed
