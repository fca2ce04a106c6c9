"""Answers that take long: few are made at once, and none for those who no longer wait."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from corral.api.routes import jobs
from tests.api.world import PATIENCE_S, Answer, Served

ASKED = "/jobs?limit=10000"


class SlowAnswers:
    """Answers that are being made until they are told to end, and how many were begun."""

    def __init__(self, go_on: Callable[..., object]) -> None:
        self._go_on = go_on
        self.begun = 0
        self.end = threading.Event()

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.begun += 1
        assert self.end.wait(PATIENCE_S)
        return self._go_on(*args, **kwargs)


@pytest.fixture
def listings(served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowAnswers]:
    queries = served.world.service.queries
    slow = SlowAnswers(queries.jobs)
    monkeypatch.setattr(queries, "jobs", slow)
    yield slow
    slow.end.set()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def waiting_for_a_turn() -> int:
    return jobs._LONG_PAGES._turns.waiting


def test_a_stop_makes_no_long_answer_that_was_not_begun(served: Served, listings: SlowAnswers) -> None:
    answers: list[Answer] = []
    crowd = [threading.Thread(target=lambda: answers.append(served.call("GET", ASKED))) for _ in range(10)]
    for one in crowd:
        one.start()
    wait_for(lambda: listings.begun == 2 and waiting_for_a_turn() == 8)
    served.server.stop()
    listings.end.set()
    for one in crowd:
        one.join(PATIENCE_S)
    assert sorted(answer.status for answer in answers) == [200] * 2 + [503] * 8
    assert listings.begun == 2
    assert "the server stops" in next(answer for answer in answers if answer.status == 503).error["message"]


def test_no_long_answer_is_made_for_those_who_have_gone(served: Served, listings: SlowAnswers) -> None:
    busy = [threading.Thread(target=served.call, args=("GET", ASKED)) for _ in range(2)]
    for one in busy:
        one.start()
    wait_for(lambda: listings.begun == 2)
    with served.connection() as leaves:
        leaves.request("GET", f"/api/v1{ASKED}")
        wait_for(lambda: waiting_for_a_turn() == 1)
    listings.end.set()
    for one in busy:
        one.join(PATIENCE_S)
    assert served.call("GET", ASKED).status == 200
    assert listings.begun == 3, "one of them for whoever had gone"


def test_a_short_listing_does_not_wait_for_long_ones(served: Served, listings: SlowAnswers) -> None:
    busy = [threading.Thread(target=served.call, args=("GET", ASKED)) for _ in range(3)]
    for one in busy:
        one.start()
    wait_for(lambda: listings.begun == 2 and waiting_for_a_turn() == 1)
    short = threading.Thread(target=served.call, args=("GET", "/jobs?limit=100"))
    short.start()
    wait_for(lambda: listings.begun == 3)
    listings.end.set()
    for one in (*busy, short):
        one.join(PATIENCE_S)


def test_a_stop_makes_no_dry_run_that_was_not_begun(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowAnswers(served.world.service.dry_run)
    monkeypatch.setattr(served.world.service, "dry_run", slow)
    answers: list[Answer] = []
    asked = {"command": ["true"]}
    crowd = [
        threading.Thread(target=lambda: answers.append(served.call("POST", "/jobs/dry-run", asked))) for _ in range(5)
    ]
    for one in crowd:
        one.start()
    wait_for(lambda: slow.begun == 2 and jobs._DRY_RUNS._turns.waiting == 3)
    served.server.stop()
    slow.end.set()
    for one in crowd:
        one.join(PATIENCE_S)
    assert sorted(answer.status for answer in answers) == [200] * 2 + [503] * 3
