"""The first line of an attempt says which it is, and how the one before ended."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from corral.core.control.telling.attempt_notes import begins
from corral.core.model.fact import Fact, JobChanged
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.core.ports.ledger import JournalEntry

STARTING = Job("7", 1, JobSpec("alice", retries=2), 0.0, phase=Phase.STARTING, attempts=1, launches=2)


class Journal:
    """A ledger with these facts about the job."""

    def __init__(self, *changes: dict[str, Any]) -> None:
        facts: Sequence[Fact] = [JobChanged("7", change, at=1.0, by="test") for change in changes]  # type: ignore[arg-type]
        self._entries = tuple(JournalEntry(number, 1.0, fact) for number, fact in enumerate(facts))

    def journal(self, *, job_id: str) -> tuple[JournalEntry, ...]:
        assert job_id == "7"
        return self._entries


AGAIN = {"phase": Phase.PENDING, "reason": None}


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ({"phase": Phase.FAILED, "exit_code": 3}, "failed with exit code 3"),
        ({"phase": Phase.FAILED, "exit_code": None, "reason": "it used 30G"}, "failed: it used 30G"),
        ({"phase": Phase.LOST, "reason": "node a is gone"}, "was lost: node a is gone"),
        (
            {"phase": Phase.STOPPING, "stop_reason": Phase.PENDING, "reason": "requeued by bob"},
            "was stopped: requeued by bob",
        ),
    ],
)
def test_it_says_how_the_last_attempt_ended_and_how_many_there_may_be(ended: dict[str, Any], words: str) -> None:
    first = {"phase": Phase.FAILED, "exit_code": 99}
    journal: Any = Journal(first, AGAIN, {"phase": Phase.RUNNING}, ended, AGAIN, {"phase": Phase.STARTING})
    assert begins(journal, STARTING) == (f"attempt 2 of 3 begins; attempt 1 {words}",)
    beyond = replace(STARTING, attempts=3)
    assert begins(journal, beyond) == (f"attempt 4 begins; attempt 3 {words}",)


def test_a_first_attempt_and_one_that_runs_already_have_no_such_line() -> None:
    journal: Any = Journal()
    assert begins(journal, replace(STARTING, attempts=0)) == ()
    assert begins(journal, replace(STARTING, phase=Phase.RUNNING)) == ()
    assert begins(journal, STARTING) == ("attempt 2 of 3 begins",)


def test_after_an_eviction_it_says_for_whom_that_was() -> None:
    eviction = Eviction(EvictionRule.PRIORITY, "9", "more urgent", 1.0, "7.1", ran_s=12.0, lost_s=12.0)
    journal: Any = Journal()
    assert begins(journal, replace(STARTING, eviction=eviction)) == (
        "attempt 2 of 3 begins; it goes on after it was preempted for job 9; the 12s that it had run are lost",
    )
