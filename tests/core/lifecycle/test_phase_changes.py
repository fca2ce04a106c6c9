"""What the steps of a job are made of: times that can be believed, and pauses that grow."""

import pytest

from corral.core.lifecycle import ending, starting
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.fact import JobChanged
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, place

LATE = 1e6


@pytest.mark.parametrize("told", [0.0, 1e10, LATE - 90_000, LATE + 90_000])
def test_a_time_that_no_clock_can_have_shown_is_not_believed(told: float) -> None:
    view = with_jobs(box(), job(1))
    view = view.advance(starting.start(view.jobs["1"], place(0), by="test", at=LATE))
    view = view.advance(starting.running(view, view.jobs["1"], told, by="test", at=LATE + 1))
    assert view.jobs["1"].started_at == LATE + 1
    report = LaunchReport("1.1", LaunchPhase.EXITED, told, told, exit_code=0, ending=Phase.SUCCEEDED)
    changed = ending.ended(view, view.jobs["1"], report, by="test", at=LATE + 3, backoff=BACKOFF)[0]
    assert isinstance(changed, JobChanged)
    assert "started_at" not in changed.changes
    assert changed.changes["ended_at"] == LATE + 3


def test_the_pause_before_another_try_doubles_up_to_the_longest() -> None:
    backoff = Backoff(1.0, 300.0)
    assert [backoff.after(failures) for failures in (1, 2, 3, 9, 10, 1000)] == [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]
