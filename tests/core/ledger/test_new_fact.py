"""A fact is one class: what the journal, the tables and the view make of it follows from that class alone."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from corral.core.ledger.fold import check, fold
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.ledger.table_rows import entry_of
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import Fact
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.view import ViewDraft
from tests.core.ledger.making import a_job, submitted, url_of, write


@dataclass(frozen=True, slots=True)
class JobRenamedInATest(Fact):
    """Something that happens to a job, with fields of several types."""

    job_id: str
    reason: str | None
    rules: tuple[EvictionRule, ...] = ()

    @property
    def about(self) -> str:
        return self.job_id

    def apply(self, draft: ViewDraft) -> None:
        draft.set_job(replace(draft.view.jobs[self.job_id], reason=self.reason, evictions=len(self.rules)))


@dataclass(frozen=True, slots=True)
class RackCordonedInATest(Fact):
    """Something that is neither a job nor an allocation, and holds until the next fact of its subject."""

    rack: str
    reason: str | None

    @property
    def subject(self) -> str:
        return f"cordon of rack {self.rack}"

    def apply(self, draft: ViewDraft) -> None:
        draft.cordon_device(f"all of {self.rack}", self.reason)


def test_a_new_fact_survives_journal_tables_fold_and_view(ledger: SqlLedger, tmp_path: Path) -> None:
    facts = (
        submitted(a_job(1)),
        JobRenamedInATest("1", "because", (EvictionRule.IDLE, EvictionRule.MEMORY), at=2000.0, by="bob"),
        RackCordonedInATest("r1", "its switch is loud", at=2001.0, by="root"),
        RackCordonedInATest("r2", "no power", at=2002.0, by="root"),
        RackCordonedInATest("r1", None, at=2003.0, by="root"),
    )
    write(ledger, *facts[:2])
    write(ledger, *facts[2:])
    live, journal = ledger.view(), ledger.journal()
    ledger.close()
    again = open_ledger(url_of(tmp_path))
    reopened = again.view()
    again.close()
    assert tuple(entry.fact for entry in journal) == facts
    assert check(url_of(tmp_path)) == ()
    for view in (live, fold(journal).view, reopened):
        assert (view.jobs["1"].reason, view.jobs["1"].evictions) == ("because", 2)
        assert view.cordons == {"all of r2": "no power"}


def test_a_fact_of_a_newer_version_is_not_called_damage() -> None:
    row = {"sequence": 7, "at": 1.0, "spec": None, "environment": None, "body": '{"fact": "JobTeleported", "at": 1.0}'}
    with pytest.raises(LedgerFailed, match=r"entry 7 is of the kind 'JobTeleported', .* a newer one wrote it"):
        entry_of(row, {})
