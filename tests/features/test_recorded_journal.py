"""A journal that was recorded when all this was in the view means today what it meant then.

`recorded_journal.json` has its rows, each with the number of the commit that wrote it, and `said`: what tables and view
came to. In it jobs that are to be told of start, end, are tried again, are cancelled and follow others; alerts fire and
are silenced; and experiments are made, measured and forgotten.
"""

import json
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from corral.core.ledger.fold import check, fold
from corral.core.ledger.store import open_ledger
from corral.core.ledger.table_rows import entry_of, journal_rows
from corral.core.model.fact import Fact
from corral.core.model.jobs.phase import Phase
from corral.core.model.slice import LedgerSnapshot
from corral.core.ports.ledger import JournalEntry
from corral.features.alerts.slice import AlertsSlice
from corral.features.channels.facts import NoticeDue, NotificationDue
from corral.features.channels.slice import NoticesSlice
from corral.features.feature_list import slices
from corral.features.tuner.experiment_table import ExperimentRows
from corral.features.tuner.slice import TunerSlice
from corral.wire import to_plain
from tests.core.ledger.making import url_of, write

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_journal.json").read_text(encoding="utf-8"))
SAID = RECORDED["said"]
ROWS: list[dict[str, Any]] = [{"environment": None, "spec": None, "job_id": None, **row} for row in RECORDED["journal"]]


def recorded() -> list[JournalEntry]:
    return [entry_of(row, {}) for row in ROWS]


def kept(snapshot: LedgerSnapshot) -> dict[str, dict[str, Any]]:
    """What the features know, as it was recorded."""
    due, alerts, tuner = snapshot.of(NoticesSlice), snapshot.of(AlertsSlice), snapshot.of(TunerSlice)
    mappings: dict[str, Any] = {
        "notifications": due.notifications,
        "notices": due.notices,
        "alerts": alerts.alerts,
        "silences": alerts.silences,
        "tasks": tuner.tasks,
        "running": tuner.experiments,
    }
    return {
        name: {key: to_plain(value, compact=True) for key, value in sorted(found.items())}
        for name, found in mappings.items()
    }


def test_it_folds_to_what_the_view_said_then() -> None:
    found = fold(recorded(), slices())
    assert kept(found) == {name: SAID[name] for name in kept(found)}
    live = {job_id: phase for job_id, phase in SAID["jobs"].items() if not Phase(phase).terminal}
    assert {job.id: job.phase for job in found.view.jobs.values()} == live


def test_the_table_of_experiments_and_the_last_facts_of_subjects_are_as_then() -> None:
    table, latest = ExperimentRows(), dict[str, int]()
    for entry in recorded():
        table.add(entry.fact)
        if entry.fact.subject is not None:
            latest[entry.fact.subject] = entry.sequence
            if entry.fact.closes:
                del latest[entry.fact.subject]
    assert table.rows == SAID["experiments"]
    assert latest == SAID["latest"]


def test_its_facts_are_written_as_then() -> None:
    written = journal_rows(1, [entry.fact for entry in recorded()])
    assert [row["body"] for row in written] == [row["body"] for row in ROWS]


def test_what_was_decided_then_is_followed_by_the_same_facts_in_the_same_commit(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path), slices=slices())
    for _, rows in groupby(ROWS, lambda row: row["operation"]):
        facts = [entry_of(row, {}).fact for row in rows]
        before = ledger.position
        write(ledger, *(fact for fact in facts if not isinstance(fact, NoticeDue | NotificationDue)))
        assert counted([entry.fact for entry in ledger.journal(after=before)]) == counted(facts)
    live = kept(ledger.snapshot())
    ledger.close()
    again = open_ledger(url_of(tmp_path), slices=slices())
    reopened = kept(again.snapshot())
    again.close()
    assert live == reopened == {name: SAID[name] for name in live}
    assert check(url_of(tmp_path), slices()) == ()


@pytest.mark.parametrize(
    "reading",
    [
        "from corral.sim.replays.journal import read_journal as read; print(len(read(url)))",
        """
from corral.features.replays import replay_worker as worker
worker.replay = lambda facts, *_, **__: facts
print(len(worker.answer(url, Mock(since=0.0, until=1e12, placement=()), print)))
        """,
    ],
    ids=["journal", "replay"],
)
def test_a_process_of_its_own_knows_the_facts_of_all_features(tmp_path: Path, reading: str) -> None:
    url = url_of(tmp_path)
    ledger = open_ledger(url, slices=slices())
    write(ledger, *(entry.fact for entry in recorded() if not isinstance(entry.fact, NoticeDue | NotificationDue)))
    ledger.close()
    command = [sys.executable, "-c", f"from unittest.mock import Mock; url = {url!r}\n{reading}"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert int(found.stdout or 0) > 0, found.stderr


def counted(facts: list[Fact]) -> Counter[str]:
    return Counter(map(repr, facts))
