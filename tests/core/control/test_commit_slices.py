"""Very many jobs are changed in several commits: others get in between, and it is said what a failure left undone."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.core.control.changing import commit_slices
from corral.core.control.changing.job_changes import Verb
from corral.core.model.errors import Conflict, LedgerFailed
from corral.core.model.jobs.job_choice import JobChoice
from corral.core.model.jobs.job_update import JobUpdate
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import ArraySpec
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from tests.core.control.cluster import on
from tests.core.control.test_service import ALICE, BOB, TRUE, Served

FIVE = replace(TRUE, array=ArraySpec(tuple(range(5))))
FULL = LedgerFailed("the disk is full")


class Sliced(Served):
    """Two jobs are changed in a commit. `before` is called with how many commits were made of what is asked for."""

    def start(self) -> None:
        super().start()
        self.facts: list[int] = []
        self.before: Callable[[int], None] = lambda made: None
        self._commit = self.ledger.commit
        self.ledger.commit = self._counted  # type: ignore[method-assign]

    def _counted(self, decide: Callable[[View], Decided[Any]], **about: Any) -> "Future[Any]":
        self.before(len(self.facts))

        def decided(view: View) -> Decided[Any]:
            taken = decide(view)
            self.facts.append(len(taken.facts))
            return taken

        return self._commit(decided, **about)

    def array(self) -> str:
        array = self.submit(FIVE)
        self.facts.clear()
        return array

    def fails_after(self, commits: int) -> None:
        def fail(made: int) -> None:
            if made == commits:
                raise FULL

        self.before = fail


@pytest.fixture
def sliced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sliced]:
    monkeypatch.setattr(commit_slices, "JOBS_IN_A_COMMIT", 2)
    sliced = Sliced(tmp_path, "a", "b")
    yield sliced
    sliced.before = lambda made: None
    sliced.close()


def elements(array: str, *indices: int) -> tuple[str, ...]:
    return tuple(f"{array}_{index}" for index in indices)


def test_what_others_ask_for_is_done_between_two_slices(sliced: Sliced) -> None:
    array = sliced.array()
    between: list[tuple[bool, ...]] = []

    def submit(made: int) -> None:
        if made == 1:
            sliced.before = lambda made: None
            sliced.submit(TRUE, BOB)
            between.append(tuple(job.held for job in sliced.ledger.find_array(array)))

    sliced.before = submit
    assert sliced.do("hold", array) == elements(array, *range(5))
    assert between == [(True, True, False, False, False)]
    assert sliced.facts == [2, 1, 2, 1]


@pytest.mark.parametrize("chosen", [True, False])
def test_a_job_that_was_cancelled_with_one_of_an_earlier_slice_counts_as_changed(sliced: Sliced, chosen: bool) -> None:
    jobs = [sliced.submit(replace(TRUE, name="mine")) for _ in range(3)]
    for _ in range(2):
        jobs.append(sliced.submit(replace(TRUE, name="mine", after=(jobs[-1],))))
    choice = JobChoice(name="mine") if chosen else JobChoice(tuple(jobs))
    found = sliced.service.changes.many(Verb.CANCEL, choice, ALICE)
    assert (set(found.ids), found.unchanged, found.phases) == (set(jobs), (), {"PENDING": 5})
    again = sliced.service.changes.many(Verb.CANCEL, replace(choice, dry_run=True), ALICE)
    assert (again.ids, len(again.unchanged)) == ((), 0 if chosen else 5)


def test_a_job_that_is_none_of_those_meant_by_the_time_of_its_slice_is_left_alone(sliced: Sliced) -> None:
    array = sliced.array()

    def cancel(made: int) -> None:
        if made == 1:
            sliced.before = lambda made: None
            sliced.do("cancel", f"{array}_0")

    sliced.before = cancel
    found = sliced.service.changes.many(Verb.HOLD, JobChoice(array=array), ALICE)
    assert (found.ids, found.unchanged) == (elements(array, 4, 3, 2, 1), ())


def test_where_the_ledger_fails_between_two_slices_it_is_told_what_was_changed(sliced: Sliced) -> None:
    array = sliced.array()
    sliced.fails_after(1)
    found = sliced.service.changes.many(Verb.HOLD, JobChoice(array=array), ALICE)
    assert found.ids == elements(array, 4, 3)
    said = "2 of 5 jobs are changed, the others are not: the disk is full"
    assert [(one.id, one.reason) for one in found.unchanged] == [(name, said) for name in elements(array, 2, 1, 0)]
    sliced.facts.clear()
    with pytest.raises(LedgerFailed, match=said):
        sliced.do("cancel", array)
    assert [phase is Phase.CANCELLED for phase in sliced.phases(array)] == [True, True, False, False, False]
    sliced.fails_after(0)
    sliced.facts.clear()
    with pytest.raises(LedgerFailed, match=r"^the disk is full"):
        sliced.do("cancel", array)


def test_an_array_is_given_other_values_in_slices_once_all_of_it_was_looked_at(sliced: Sliced) -> None:
    array = sliced.array()
    assert sliced.service.updating.update(array, JobUpdate(priority=7), ALICE) == elements(array, *range(5))
    assert sliced.facts == [2, 2, 1]
    sliced.running(f"{array}_4", on("a", 0))
    sliced.facts.clear()
    with pytest.raises(Conflict, match="queue"):
        sliced.service.updating.update(array, JobUpdate(priority=3, queue="other"), ALICE)
    assert sliced.facts == []
    sliced.fails_after(2)
    with pytest.raises(LedgerFailed, match="4 of 5 jobs are changed"):
        sliced.service.updating.update(array, JobUpdate(name="other"), ALICE)
    assert [job.spec.name for job in sliced.ledger.find_array(array)] == ["other"] * 4 + ["true"]


def test_an_array_of_which_nothing_is_left_to_change_is_a_conflict(sliced: Sliced) -> None:
    array = sliced.array()
    sliced.do("cancel", array)
    with pytest.raises(Conflict, match=f"array {array}: no element"):
        sliced.do("hold", array)
    with pytest.raises(Conflict, match=f"array {array}: every element has ended"):
        sliced.service.updating.update(array, JobUpdate(name="x"), ALICE)
