import pytest

from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.queues.queue import Project
from corral.core.model.runs.decayed_usage import DecayedUsage
from corral.core.model.view import View, ViewDraft
from corral.features.accounting.fair_shares import fair_shares

DAY_S = 86400.0
NOW = 100 * DAY_S


def test_past_use_counts_half_after_a_half_life_and_by_weight() -> None:
    view = View(
        projects={"vision": Project("vision", weight=2.0, user_weights=(("ann", 4.0),))},
        usage={
            ("vision", "ann"): DecayedUsage(8000.0, NOW - 7 * DAY_S),
            ("vision", "bob"): DecayedUsage(1000.0, NOW),
            ("text", "ann"): DecayedUsage(500.0, NOW - 14 * DAY_S),
        },
        usage_half_life_s=7 * DAY_S,
    )
    found = fair_shares(view, NOW)
    assert found.half_life_s == 7 * DAY_S
    told = {(row.project, row.user): (row.past_gpu_s, row.held_gpu_s, row.weighed_gpu_s) for row in found.rows}
    assert told == {
        ("text", None): (125.0, 0.0, 125.0),
        ("text", "ann"): (125.0, 0.0, 125.0),
        ("vision", None): (5000.0, 0.0, 2500.0),
        ("vision", "ann"): (4000.0, 0.0, 1000.0),
        ("vision", "bob"): (1000.0, 0.0, 1000.0),
    }
    assert [(row.project, row.user) for row in found.rows] == list(told)


def test_what_lasts_counts_an_hour_ahead() -> None:
    draft = ViewDraft(View())
    draft.set_job(Job("1", 1, JobSpec("ann", project="vision"), NOW - 100, Phase.RUNNING))
    placement = Placement((Member("here", (Grant("GPU-0", 1000), Grant("GPU-1", 500))),))
    draft.allocate(Allocation("1.1", "1", "ann", placement, NOW - 100))
    (whole, user) = fair_shares(draft.view, NOW).rows
    assert (whole.held_gpu_s, user.held_gpu_s, user.past_gpu_s) == (1.5 * 3700, 1.5 * 3700, 0.0)


def test_without_any_use_there_is_no_row() -> None:
    assert fair_shares(View(), NOW).rows == ()
    assert fair_shares(View(), NOW).half_life_s == pytest.approx(7 * DAY_S)
