"""The listing of queues: who sees what, in which order, and what is left to whom."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.access.caller import Caller
from corral.core.model.answers.site import QueueRow
from corral.core.model.errors import Forbidden, Refused
from corral.core.model.fact import SiteArranged
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.ports.ledger import Decided
from tests.core.control.cluster import on
from tests.core.control.test_service import ALICE, BOB, ROOT, Served

QUEUES = (
    Queue("day", parent="lab", quota=Quota(share_milli=3000, borrow_milli=1000)),
    Queue("default"),
    Queue("lab", quota=Quota(share_milli=6000)),
    Queue("night", parent="lab", quota=Quota(share_milli=3000)),
)
PROJECTS = (
    Project("open"),
    Project("ours", users=("bob",), quota=Quota(share_milli=1500)),
    Project("all", quota=Quota(share_milli=500)),
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, "a", "b")
    limits = Limits(of_user=Quota(share_milli=5000))
    served.ledger.observe([SiteArranged(queues=QUEUES, projects=PROJECTS, limits=limits)])
    served.ledger.commit(lambda _: Decided((), None)).result()
    yield served
    served.close()


def left(served: Served, caller: Caller, project: str = "default") -> dict[str, int | None]:
    return {row.name: row.left_milli for row in served.service.queues.rows(caller, project)}


def work(queue: str) -> Submission:
    return Submission(("true",), request=Request(devices=1), workdir="/", queue=queue)


def test_queues_stand_below_their_parents_and_above_them_what_limits_a_user_and_projects(served: Served) -> None:
    rows = served.service.queues.rows(BOB, "default")
    assert [(row.kind, row.name, row.parent) for row in rows] == [
        ("user", "bob", None),
        ("project", "ours", None),
        ("project", "all", None),
        ("queue", "default", None),
        ("queue", "lab", None),
        ("queue", "day", "lab"),
        ("queue", "night", "lab"),
    ]


def test_projects_of_others_are_shown_to_administrators_alone(served: Served) -> None:
    assert "ours" not in left(served, ALICE)
    assert "ours" in left(served, ROOT)


def test_use_and_waiting_jobs_count_to_all_queues_above(served: Served) -> None:
    served.running(served.submit(work("day")), on("a", 0))
    served.submit(work("day"))
    served.submit(work("night"))
    rows = {row.name: row for row in served.service.queues.rows(ALICE, "default")}
    assert {name: (row.used_milli, row.waiting) for name, row in rows.items()} == {
        "alice": (1000, 2),
        "all": (0, 0),
        "default": (0, 0),
        "lab": (1000, 2),
        "day": (1000, 1),
        "night": (0, 1),
    }


def test_what_is_left_is_the_least_that_any_quota_leaves(served: Served) -> None:
    served.running(served.submit(work("day")), on("a", 0))
    assert left(served, ALICE) == {
        "alice": 4000,
        "all": 500,
        "default": 4000,
        "lab": 4000,
        "day": 3000,
        "night": 3000,
    }
    assert left(served, BOB)["lab"] == 5000
    assert left(served, BOB, "ours")["lab"] == 1500


def test_without_limits_nothing_limits(served: Served) -> None:
    served.ledger.observe([SiteArranged(queues=(Queue("default"),))])
    served.ledger.commit(lambda _: Decided((), None)).result()
    assert served.service.queues.rows(ALICE, "default") == [QueueRow("default", policy="priority")]


def test_what_is_left_in_a_project_that_is_not_theirs_nobody_is_told(served: Served) -> None:
    with pytest.raises(Forbidden, match="not a member of project ours"):
        left(served, ALICE, "ours")
    with pytest.raises(Refused, match="no project 'our'"):
        left(served, ALICE, "our")


def test_a_removed_queue_is_listed_while_jobs_are_in_it(served: Served) -> None:
    served.running(served.submit(work("night")), on("a", 0))
    waits = served.submit(work("night"))
    kept = tuple(queue for queue in QUEUES if queue.name != "night")
    served.ledger.observe([SiteArranged(queues=kept, projects=PROJECTS)])
    served.ledger.commit(lambda _: Decided((), None)).result()
    row = served.service.queues.rows(ALICE, "default")[-1]
    assert (row.name, row.removed, row.used_milli, row.waiting) == ("night", True, 1000, 1)
    assert waits
    assert not any(row.removed for row in served.service.queues.rows(ALICE, "default")[:-1])
