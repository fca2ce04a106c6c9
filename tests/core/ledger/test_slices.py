"""A feature has a slice of the ledger: folded by the journal, published with the view, and asked within each commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.core.ledger.fold import fold
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.draft import DraftOf
from corral.core.model.errors import Refused
from corral.core.model.fact import DeviceCordoned, Fact, JobChanged, Observation
from corral.core.model.jobs.phase import Phase
from corral.core.model.slice import Slice
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from tests.core.ledger.making import a_job, ended, send, submitted, url_of, write


@dataclass(frozen=True, slots=True)
class BellRungInATest(Fact):
    """A bell was rung for a job that ended."""

    job_id: str
    rings: int

    @property
    def subject(self) -> str:
        return "bell"


@dataclass(frozen=True, slots=True)
class BellSilencedInATest(Observation):
    """The bell may not be rung."""


@dataclass(frozen=True)
class BellSlice(Slice):
    rings: int = 0
    silenced: bool = False

    deltas = (BellRungInATest, BellSilencedInATest)

    @staticmethod
    def fold(draft: "DraftOf[BellSlice]", delta: object) -> None:
        match delta:
            case BellRungInATest(rings=rings):
                draft.amend(rings=rings)
            case BellSilencedInATest():
                draft.amend(silenced=True)

    def follows(self, view: View, facts: Sequence[Fact]) -> Sequence[Fact]:
        ends = [fact for fact in facts if isinstance(fact, JobChanged) and view.jobs[fact.job_id].phase.terminal]
        if ends and self.silenced:
            raise Refused("the bell is silenced")
        return [BellRungInATest(fact.job_id, self.rings + 1, at=fact.at, by="test") for fact in ends]


def opened(tmp_path: Path) -> SqlLedger:
    return open_ledger(url_of(tmp_path), slices=[BellSlice])


def rings(ledger: SqlLedger) -> int:
    return ledger.snapshot().of(BellSlice).rings


def test_what_follows_is_written_published_and_found_again_with_what_it_follows_from(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    published: list[tuple[int, int]] = []
    ledger.subscribe(lambda view, deltas: published.append((len(view.jobs), rings(ledger))))
    write(ledger, submitted(a_job(1)), submitted(a_job(2)))
    write(ledger, ended("1"))
    write(ledger, ended("2", Phase.FAILED))
    assert published == [(2, 0), (1, 1), (0, 2)]
    journal = ledger.journal()
    assert [type(entry.fact).__name__ for entry in journal[2:]] == ["JobChanged", "BellRungInATest"] * 2
    ledger.close()
    again = opened(tmp_path)
    assert rings(again) == fold(journal, [BellSlice]).of(BellSlice).rings == 2
    again.close()


def test_an_operation_sees_in_the_slice_what_was_decided_before_it_in_its_batch(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    write(ledger, *(submitted(a_job(number)) for number in range(1, 9)))
    ends = [send(ledger, ended(str(number))) for number in range(1, 8)]
    seen = ledger.commit_in(BellSlice, lambda bell: Decided((ended("8"),), bell.rings))
    for end in ends:
        end.result()
    # Commits of one user are done in order.
    assert seen.result() == 7
    assert rings(ledger) == 8
    ledger.close()


def test_a_commit_of_which_no_facts_can_follow_leaves_no_trace(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    write(ledger, submitted(a_job(1)), submitted(a_job(2)))
    ledger.observe([BellSilencedInATest()])
    refused, other = send(ledger, ended("1")), send(ledger, DeviceCordoned("GPU-0", "loud", at=1.0, by="test"))
    with pytest.raises(Refused, match="silenced"):
        refused.result()
    other.result()
    assert set(ledger.view().jobs) == {"1", "2"}
    assert ledger.view().cordons == {"GPU-0": "loud"}
    assert len(ledger.journal()) == 3
    ledger.close()


def test_a_ledger_that_was_opened_without_the_slice_has_an_empty_one_and_nothing_follows(ledger: SqlLedger) -> None:
    write(ledger, submitted(a_job(1)))
    write(ledger, ended("1"))
    assert ledger.snapshot().of(BellSlice) == BellSlice()
    assert len(ledger.journal()) == 2
