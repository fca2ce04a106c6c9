from collections.abc import Mapping
from typing import Any

import pytest

from corral.core.model.answers.devices import DeviceRow, HolderRow
from corral.core.model.answers.events import Event
from corral.core.model.answers.jobs import JobRow
from corral.core.model.answers.site import ServerInfo
from corral.core.model.jobs.phase import Phase
from corral.tui.board import MOST_ENDED, Board
from corral.tui.board_news import JobNews, JobsThatEnded, LookAgain, Snapshot, Waits, news_of
from corral.tui.sparks import STEP_S

FREE = DeviceRow("GPU-a", 0, "Mock A100", "free", 1024, 0)


def board(*jobs: JobRow) -> Board:
    known = Board()
    known.apply([Snapshot(ServerInfo(node="here"), (FREE,), jobs)])
    return known


def hear(known: Board, topic: str, what: str, *rows: Mapping[str, Any]) -> None:
    known.apply(news_of(Event(topic, what, 1, 1000.0, "alice", tuple(rows))))


def test_events_make_of_a_board_what_a_listing_would_be() -> None:
    known = board()
    hear(known, "jobs", "submitted", {"id": "1", "name": "sft", "user": "alice", "phase": "PENDING", "gpus": 1})
    assert known.waiting
    hear(known, "jobs", "allocated", {"id": "1", "devices": ["GPU-a"], "grants": [{"uuid": "GPU-a"}]})
    hear(known, "devices", "allocated", {"uuid": "GPU-a", "node": "here", "job": "1", "user": "alice"})
    hear(known, "jobs", "changed", {"id": "1", "phase": "RUNNING", "started_at": 1000.0})
    hear(known, "metrics", "sampled", {"uuid": "GPU-a", "state": "allocated", "utilization_pct": 50, "taken_at": 1000})
    job, device = known.jobs["1"], known.devices["GPU-a"]
    assert (job.name, job.phase, job.devices, job.started_at) == ("sft", Phase.RUNNING, ("GPU-a",), 1000.0)
    assert (device.state, device.utilization_pct, device.holders) == ("allocated", 50, (HolderRow("1", "alice"),))
    assert device.memory_total_mib == 1024, "what an event does not have stays"
    assert known.sparks.last("GPU-a", 2, 1000.0) == [None, 0.5]
    hear(known, "devices", "freed", {"job": "1"})
    assert known.devices["GPU-a"].holders == ()


def test_a_reading_that_there_is_not_is_no_zero() -> None:
    known = board()
    hear(known, "metrics", "sampled", {"uuid": "GPU-a", "state": "unreadable", "utilization_pct": None, "taken_at": 1})
    assert known.devices["GPU-a"].utilization_pct is None
    assert known.sparks.last("GPU-a", 1, 1.0) == [None]


def test_what_no_event_tells_is_to_be_looked_at_again() -> None:
    known = board()
    hear(known, "metrics", "sampled", {"uuid": "GPU-a", "state": "unhealthy"})
    assert known.look_again == {"devices"}
    hear(known, "alerts", "fired", {"id": 1})
    assert known.look_again == {"devices", "server"}
    known.look_again.clear()
    hear(known, "metrics", "sampled", {"uuid": "GPU-new", "state": "free"})
    assert known.look_again == {"devices"}
    assert list(news_of(Event("devices", "cordoned", 1, 1.0, "root", ({"uuid": "GPU-a"},)))) == [LookAgain("devices")]


def test_an_older_reason_to_wait_is_no_newer_phase() -> None:
    known = board(JobRow("1", phase=Phase.RUNNING), JobRow("2"))
    known.apply([Waits((JobRow("1", wait="Resources"), JobRow("2", wait="Priority", expected_start=9.0), JobRow("3")))])
    assert (known.jobs["1"].phase, known.jobs["1"].wait) == (Phase.RUNNING, None)
    assert (known.jobs["2"].wait, known.jobs["2"].expected_start) == ("Priority", 9.0)
    assert "3" not in known.jobs


def test_a_job_that_starts_waits_no_more_and_one_that_nobody_knows_is_none() -> None:
    known = board(JobRow("1", wait="Resources", expected_start=9.0))
    known.apply([JobNews("1", {"phase": Phase.STARTING}), JobNews("7", {"phase": Phase.RUNNING})])
    assert (known.jobs["1"].wait, known.jobs["1"].expected_start) == (None, None)
    assert list(known.jobs) == ["1"]


def test_only_so_many_jobs_that_have_ended_are_kept() -> None:
    known = board(JobRow("alive"))
    known.apply([JobsThatEnded(tuple(JobRow(str(n), phase=Phase.FAILED) for n in range(MOST_ENDED + 100)))])
    assert len(known.jobs) == MOST_ENDED + 1
    assert "alive" in known.jobs
    assert "0" in known.jobs, "the newest come first in a listing"


def test_the_past_fills_only_steps_in_which_nothing_was_heard() -> None:
    known = board()
    known.sparks.add("GPU-a", 2 * STEP_S, 100.0)
    known.sparks.add_past("GPU-a", [(0.0, 20.0), (1.0, 40.0), (2.0 * STEP_S, 0.0)])
    assert known.sparks.last("GPU-a", 3, 2.0 * STEP_S) == [pytest.approx(0.3), None, 1.0]
    assert not known.sparks.lacks_past("GPU-a")
