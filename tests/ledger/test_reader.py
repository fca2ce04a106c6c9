"""Pages of jobs and environments."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from corral.ledger.database import Database
from corral.ledger.reader import pages
from corral.ledger.store import SqlLedger, open_ledger
from corral.model.errors import Refused
from corral.model.job import Job, Phase
from corral.ports import JobQuery
from tests.ledger.making import a_job, submitted, url_of, write

PHASES = (Phase.PENDING, Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED)


@pytest.fixture
def jobs(ledger: SqlLedger) -> Sequence[Job]:
    jobs = [
        a_job(
            number,
            user=("alice", "bob", "bob")[number % 3],
            name=("", "train")[number % 2],
            phase=PHASES[number % 4],
            array_id="7" if number in (12, 11, 14) else None,
            array_index=20 - number if number in (12, 11, 14) else None,
            env=(("NUMBER", str(number % 5)),),
        )
        for number in range(1, 60)
    ]
    write(ledger, *map(submitted, jobs))
    return jobs


def test_a_page_holds_the_newest_jobs_that_match(ledger: SqlLedger, jobs: Sequence[Job]) -> None:
    for user, phases, name, limit, before in product(
        (None, "bob", "nobody"),
        ((), (Phase.FAILED,), (Phase.FAILED, Phase.PENDING), (Phase.LOST,)),
        (None, "train"),
        (None, 1, 5),
        (None, 30),
    ):
        matching = [
            job
            for job in reversed(jobs)
            if (user is None or job.spec.user == user)
            and (not phases or job.phase in phases)
            and (name is None or job.spec.name == name)
            and (before is None or job.sequence < before)
        ]
        query = JobQuery(user=user, phases=phases, name=name, limit=limit, before_sequence=before)
        assert ledger.jobs(query) == tuple(matching[:limit]), query


def test_pages_follow_one_another_without_a_gap(ledger: SqlLedger, jobs: Sequence[Job]) -> None:
    found: list[Job] = []
    query = JobQuery(user="bob", limit=7)
    while page := ledger.jobs(query):
        found += page
        query = replace(query, before_sequence=page[-1].sequence)
    assert found == [job for job in reversed(jobs) if job.spec.user == "bob"]


def test_elements_of_an_array_come_by_index(ledger: SqlLedger, jobs: Sequence[Job]) -> None:
    assert [(job.id, job.array_index) for job in ledger.find_array("7")] == [("14", 6), ("12", 8), ("11", 9)]
    assert ledger.find_array("8") == ()
    assert [job.id for job in ledger.jobs(JobQuery(array_id="7"))] == ["14", "12", "11"]


def test_a_job_that_never_was_is_not_found(ledger: SqlLedger) -> None:
    assert ledger.find_job("1") is None


@pytest.mark.parametrize("query", [JobQuery(limit=10**30), JobQuery(before_sequence=10**30)], ids=str)
def test_a_number_that_no_row_can_have_is_refused(ledger: SqlLedger, query: JobQuery) -> None:
    with pytest.raises(Refused, match="nothing like this"):
        ledger.jobs(query)


def test_jobs_with_the_same_environment_share_it_in_memory_and_on_disk(tmp_path: Path) -> None:
    ledger = open_ledger(url_of(tmp_path))
    write(ledger, *(submitted(a_job(number, env=(("A", "b" * 100),))) for number in range(1, 50)))
    ledger.close()
    ledger = open_ledger(url_of(tmp_path))
    assert len({id(job.spec.env) for job in ledger.view().jobs.values()}) == 1
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw:
        assert raw.execute("SELECT count(*) FROM environments").fetchone() == (1,)


@pytest.mark.parametrize(
    "query",
    [
        JobQuery(limit=100),
        JobQuery(limit=100, before_sequence=50),
        JobQuery(limit=100, phases=(Phase.FAILED, Phase.PENDING)),
        JobQuery(limit=100, user="alice"),
        JobQuery(limit=100, user="alice", phases=(Phase.FAILED,), before_sequence=50),
        JobQuery(limit=100, name="train"),
        JobQuery(array_id="7"),
    ],
    ids=str,
)
def test_no_page_reads_the_whole_table_first(tmp_path: Path, query: JobQuery) -> None:
    open_ledger(url_of(tmp_path)).close()
    database = Database(url_of(tmp_path))
    with database.reading() as connection:
        for question in pages(query):
            sql = question.compile(connection.engine, compile_kwargs={"literal_binds": True})
            plan = " ".join(row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}"))
            walks_in_order = plan == "SCAN jobs" and query == JobQuery(limit=100)
            assert walks_in_order or plan.startswith("SEARCH jobs USING"), plan
            assert "TEMP B-TREE" not in plan or query.array_id
    database.close()
