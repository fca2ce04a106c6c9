import pytest

from corral.core.access.caller import Caller
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.submitting.priorities import refuse_priority, settle_priority
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.split import Strategy
from corral.core.model.queues.queue import Limits

LIMITS = Limits(default_priority=5, priority_range=(0, 10))
BOB, ROOT = Caller("bob", 1, 1, (1,)), Caller("root", 0, 0, (0,), admin=True)


@pytest.mark.parametrize("priority", [-1_000_000_000, -1, 11])
def test_a_priority_outside_the_sites_range_is_refused_with_the_range_unless_an_administrator_asks(
    priority: int,
) -> None:
    with pytest.raises(Refused, match=rf"priority {priority} is not allowed: users may choose 0 to 10") as refused:
        settle_priority(LIMITS, Submission(("true",), priority=priority), BOB)
    assert refused.value.field == "priority"
    assert settle_priority(LIMITS, Submission(("true",), priority=priority), ROOT)[0].priority == priority


@pytest.mark.parametrize("priority", [None, 0, 10])
def test_within_the_range_and_unsaid_all_is_as_it_was(priority: int | None) -> None:
    asked = Submission(("true",), priority=priority)
    assert settle_priority(LIMITS, asked, BOB) == (asked, ())
    refuse_priority(LIMITS, priority, BOB)


@pytest.mark.parametrize(("nice", "priority"), [(0, 5), (100, 6), (250, 8), (-100, 4), (1, 6), (-1, 4), (500, 10)])
def test_a_nice_value_is_so_many_steps_from_the_sites_default(nice: int, priority: int) -> None:
    settled, notes = settle_priority(LIMITS, Submission(("true",), nice=nice), BOB)
    assert (settled.priority, settled.nice, notes) == (priority, None, ())


@pytest.mark.parametrize(("nice", "wanted", "given"), [(10_000, 105, 10), (-10_000, -95, 0)])
def test_a_nice_value_is_brought_into_the_range_with_a_notice(nice: int, wanted: int, given: int) -> None:
    settled, (note,) = settle_priority(LIMITS, Submission(("true",), nice=nice), BOB)
    assert settled.priority == given
    assert note == f"nice {nice} means priority {wanted}, but the site allows 0 to 10; it is set to {given}"
    assert settle_priority(LIMITS, Submission(("true",), nice=nice), ROOT)[0].priority == wanted


def test_priority_and_nice_at_once_are_refused() -> None:
    with pytest.raises(Refused, match="remove one of them"):
        settle_priority(LIMITS, Submission(("true",), nice=0, priority=5), BOB)


@pytest.mark.parametrize("site_may", [True, False])
@pytest.mark.parametrize("asked_may", [True, False])
def test_a_request_that_will_not_be_split_is_not_and_a_site_may_forbid_it_too(site_may: bool, asked_may: bool) -> None:
    request = Request(share_milli=500, split_milli=500, may_fragment=asked_may)
    settled, _ = RequestRules(may_fragment=site_may).settle(Submission(("true",), request=request), "bob")
    assert settled.request.may_fragment is (site_may and asked_may)


@pytest.mark.parametrize("site", Strategy)
@pytest.mark.parametrize("asked", [None, *Strategy])
def test_a_request_is_split_as_it_asks_or_else_as_the_site_has_it(site: Strategy, asked: Strategy | None) -> None:
    request = Request(share_milli=500, split_milli=500, split=asked)
    settled, _ = RequestRules(split=site).settle(Submission(("true",), request=request), "bob")
    assert settled.request.split is (asked or site)
