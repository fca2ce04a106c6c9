"""Pages of jobs and environments."""

import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.control.querying.listing_rows import job_row
from corral.core.ledger.database import Database
from corral.core.ledger.listing import pages
from corral.core.ledger.reader import Reader
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.means import Enforcement, Level, Means
from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobRequeued, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.job_sort import SORT_KEYS, JobSort, sorted_rows
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.run_history import AllocatedTime
from corral.core.ports.ledger import HeldBy, JobQuery
from tests.core.ledger.making import a_job, attempt, ended, given_back, made, submitted, url_of, write

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
        query = JobQuery(
            users=() if user is None else (user,), phases=phases, name=name, limit=limit, before_sequence=before
        )
        assert ledger.jobs(query) == tuple(matching[:limit]), query


def test_pods_of_others_are_found_by_their_namespace_and_a_name_alone_makes_no_pod(ledger: SqlLedger) -> None:
    jobs = [a_job(1, name="team-a/forged")]
    for number, namespace in enumerate(("team-a", "team-b", "team-a"), start=2):
        one = a_job(number)
        pods = tuple(PodRef(namespace, f"pod-{rank}", f"uid-{number}-{rank}") for rank in range(2))
        jobs.append(replace(one, spec=replace(one.spec, pods=pods)))
    write(ledger, *map(submitted, jobs), ended("4"))
    for namespaces, ids in (
        (("team-a",), ["4", "2"]),
        (("team-b", "team-a"), ["4", "3", "2"]),
        (("none",), []),
        ((), ["4", "3", "2", "1"]),
    ):
        query = JobQuery(namespaces=namespaces)
        assert [job.id for job in ledger.jobs(query)] == [job.id for job in reversed(jobs) if query.has(job)] == ids


def test_several_users_queues_and_names_and_a_time_are_asked_for_at_once(ledger: SqlLedger) -> None:
    jobs = []
    for number in range(1, 60):
        one = a_job(
            number, user=("alice", "bob", "carol")[number % 3], name=("train-a", "train-b", "eval")[number % 4 % 3]
        )
        jobs.append(
            replace(
                one,
                phase=PHASES[number % 4],
                spec=replace(
                    one.spec, queue=("default", "night")[number % 2], project=("default", "sft", "nlp")[number % 3]
                ),
            )
        )
    write(ledger, *map(submitted, jobs))
    for users, queues, projects, name, since, limit in product(
        ((), ("alice", "carol"), tuple(f"u{number}" for number in range(80))),
        ((), ("night",), ("night", "default"), ("none",)),
        ((), ("sft", "default")),
        (None, "train-*", "eval,train-a", "[!t]*", "*[", "train-?"),
        (None, 1030.5, 5000.0),
        (None, 4),
    ):
        query = JobQuery(users, name=name, queues=queues, projects=projects, since=since, limit=limit)
        matching = [job for job in reversed(jobs) if query.has(job)]
        assert ledger.jobs(query) == tuple(matching[:limit]), query


@pytest.mark.parametrize(
    ("means", "ids"),
    [
        (Means.EXCLUSIVE, ["2", "1"]),
        (Means.MIG, ["4"]),
        (Means.MPS, ["3"]),
        (Means.TIMESLICE, ["5"]),
    ],
)
def test_jobs_are_found_by_how_they_hold_their_first_device_alive_and_over(
    ledger: SqlLedger, means: Means, ids: list[str]
) -> None:
    had = [("GPU-0", 1000), ("GPU-gone", 1000), ("GPU-0", 250), ("MIG-1", 1000), ("replica", 1000)]
    shared = {Means.MIG: "MIG-1", Means.MPS: "GPU-0", Means.TIMESLICE: "replica"}
    held = HeldBy(means, frozenset({shared.get(means, "")}), frozenset({"MIG-1", "replica"}))
    write(ledger, *(submitted(a_job(number)) for number in range(1, 6)))
    made = []
    for number, (uuid, milli) in enumerate(had, start=1):
        grant = Grant(uuid, milli)
        made.append(Allocation(f"{number}.1", str(number), "alice", Placement((Member("n1", (grant,)),)), 1000.0))
        assert held.has(grant) == (str(number) in ids)
    write(ledger, *(AllocationMade(one, at=1000.0, by="test") for one in made))
    assert [job.id for job in ledger.jobs(JobQuery(limit=10, held=held))] == ids


@pytest.mark.parametrize("key", SORT_KEYS)
@pytest.mark.parametrize("descending", [False, True])
def test_the_first_jobs_in_an_order_are_those_that_rows_in_this_order_begin_with(
    ledger: SqlLedger, key: str, descending: bool
) -> None:
    jobs = [
        replace(
            a_job(number, user=("alice", "bob")[number % 2], name=("b", "a", "")[number % 3], attempts=number % 3),
            phase=PHASES[number % 4],
            started_at=None if number % 5 == 0 else 2000.0 + number * 7 % 11,
            ended_at=None if number % 3 == 0 else 3000.0 + number * 3 % 7,
            exit_code=(None, 0, 3)[number % 3],
        )
        for number in range(1, 40)
    ]
    jobs = [replace(job, spec=replace(job.spec, priority=5 + job.sequence % 3)) for job in jobs]
    write(ledger, *map(submitted, jobs))
    sort, now = JobSort(key, descending), 4000.0
    expected = [row.id for row in sorted_rows([job_row(job, None, None) for job in jobs], sort, now)]
    for limit in (None, 1, 10):
        assert [job.id for job in ledger.jobs(JobQuery(sort=sort, now=now, limit=limit))] == expected[:limit]


def test_what_jobs_had_last_is_read_for_many_at_once(ledger: SqlLedger) -> None:
    write(ledger, *(submitted(a_job(number)) for number in range(1, 5)))
    write(
        ledger,
        made("1"),
        given_back("1"),
        made("1", "GPU-1", attempt=2),
        given_back("1", 2),
        made("3"),
        given_back("3"),
    )
    found = ledger.last_allocations(["1", "2", "3", "nobody"])
    assert {job_id: (one.id, one.placement.uuids) for job_id, one in found.items()} == {
        "1": ("1.2", ("GPU-1",)),
        "3": ("3.1", ("GPU-0",)),
    }
    last = ledger.last_allocation(a_job(3))
    assert last is not None
    assert found["3"] == replace(last, gpu_info=None)


def test_pages_follow_one_another_without_a_gap(ledger: SqlLedger, jobs: Sequence[Job]) -> None:
    found: list[Job] = []
    query = JobQuery(users=("bob",), limit=7)
    while page := ledger.jobs(query):
        found += page
        query = replace(query, before_sequence=page[-1].sequence)
    assert found == [job for job in reversed(jobs) if job.spec.user == "bob"]


def test_elements_of_an_array_come_by_index(ledger: SqlLedger, jobs: Sequence[Job]) -> None:
    assert [(job.id, job.array_index) for job in ledger.find_array("7")] == [("14", 6), ("12", 8), ("11", 9)]
    assert ledger.find_array("8") == ()
    assert [job.id for job in ledger.jobs(JobQuery(array_id="7"))] == ["14", "12", "11"]


def test_the_elements_of_an_array_are_as_they_are_now_whether_the_view_has_them_or_they_have_ended(
    ledger: SqlLedger,
) -> None:
    elements = [a_job(number, array_id="10", array_index=number - 11) for number in (11, 12, 13)]
    write(ledger, *map(submitted, elements))
    write(ledger, ended("12", Phase.FAILED))
    found = ledger.find_array("10")
    assert [job.phase for job in found] == [Phase.PENDING, Phase.FAILED, Phase.PENDING]
    assert found[0] is ledger.view().jobs["11"], "read from the disk 10,000 elements take half a second"


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
        JobQuery(limit=100, users=("alice",)),
        JobQuery(limit=100, users=("alice",), phases=(Phase.FAILED,), before_sequence=50),
        JobQuery(limit=100, name="train"),
        JobQuery(limit=100, queues=("night",)),
        JobQuery(limit=100, since=1000.0),
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


def held_by(
    job: Job, attempt: int, begin: float, end: float | None, behind: Enforcement | None = None, *, milli: int = 500
) -> list[Fact]:
    """An allocation of so much, from `begin` to `end`, or one that has not ended."""
    grants = (Grant("GPU-0", milli),) if milli else ()
    made = Allocation(
        f"{job.id}.{attempt}", job.id, job.spec.user, Placement((Member("n", grants),)), begin, enforcement=behind
    )
    ended = [] if end is None else [AllocationEnded(made.id, job.id, at=end, by="test")]
    return [AllocationMade(made, at=begin, by="test"), *ended]


def in_queue(number: int, user: str, queue: str = "default") -> Job:
    return Job(str(number), number, JobSpec(user=user, queue=queue), 0.0)


def test_what_was_held_counts_as_far_as_it_lies_in_the_period_live_or_ended(ledger: SqlLedger) -> None:
    job = in_queue(1, "alice")
    write(ledger, submitted(job), *held_by(job, 1, 0, 100), *held_by(job, 2, 200, 300), *held_by(job, 3, 400, None))
    seconds = {
        period: sum(time.gpu_s for time in ledger.allocated(*period))
        for period in ((0.0, 500.0), (50.0, 250.0), (100.0, 200.0), (450.0, 460.0), (600.0, 700.0))
    }
    assert seconds == {
        (0.0, 500.0): 150.0,
        (50.0, 250.0): 50.0,
        (100.0, 200.0): 0.0,
        (450.0, 460.0): 5.0,
        (600.0, 700.0): 50.0,
    }


def test_what_was_lost_counts_as_far_as_it_lies_in_the_period(ledger: SqlLedger) -> None:
    job = in_queue(1, "alice")
    made, ended = held_by(job, 1, 0, 100)
    assert isinstance(ended, AllocationEnded)
    write(ledger, submitted(job), made, replace(ended, lost_from=20.0), *held_by(job, 2, 100, 300))
    periods = ((0.0, 500.0), (50.0, 500.0), (0.0, 40.0), (0.0, 10.0), (100.0, 500.0))
    lost = {period: sum(time.lost_gpu_s for time in ledger.allocated(*period)) for period in periods}
    assert list(lost.values()) == [40.0, 25.0, 10.0, 0.0, 0.0]


def test_the_time_that_a_fault_has_cost_counts_for_nobody_also_after_a_restart(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    job = in_queue(1, "alice")
    made, ended = held_by(job, 1, 0, 100)
    assert isinstance(ended, AllocationEnded)
    write(ledger, submitted(job), made, replace(ended, lost_from=20.0, unbilled_from=20.0))
    write(ledger, *held_by(job, 2, 100, 150)[:1])
    periods = ((0.0, 100.0), (10.0, 50.0), (30.0, 100.0))
    counted = [sum(time.gpu_s for time in ledger.allocated(*period)) for period in periods]
    assert counted == [10.0, 5.0, 0]
    assert [sum(time.lost_gpu_s for time in ledger.allocated(*period)) for period in periods] == [0, 0, 0]
    assert [(one.created_at, one.ended_at) for one in ledger.held(0, 100)] == [(0, 20)]
    before = ledger.view().usage
    ledger.close()
    again = open_ledger(url_of(tmp_path))
    assert again.view().usage == before
    again.close()


def test_what_is_alike_is_summed_and_the_rest_told_apart(ledger: SqlLedger) -> None:
    advisory = Enforcement(Level.GUARDED, Level.ADVISORY)
    one, two, night = in_queue(1, "alice"), in_queue(2, "alice"), in_queue(3, "bob", "night")
    facts = [*map(submitted, (one, two, night)), *held_by(one, 1, 0, 100), *held_by(two, 1, 0, 100)]
    write(ledger, *facts, *held_by(two, 2, 100, 200, advisory), *held_by(night, 1, 0, 50, advisory, milli=1000))
    assert set(ledger.allocated(0, 1000)) == {
        AllocatedTime("alice", "default", "default", None, None, 100.0, 2),
        AllocatedTime("alice", "default", "default", None, advisory, 50.0, 1),
        AllocatedTime("bob", "default", "night", None, advisory, 50.0, 1),
    }


def test_what_holds_no_gpu_and_what_a_clock_set_back_made_shorter_than_nothing_count_nothing(ledger: SqlLedger) -> None:
    job = in_queue(1, "alice")
    write(ledger, submitted(job), *held_by(job, 1, 0, 100, milli=0), *held_by(job, 2, 500, 400))
    assert ledger.allocated(0, 1000) == ()


def test_each_allocation_is_told_with_what_it_had_and_the_sums_are_of_these(ledger: SqlLedger) -> None:
    job, idle = replace(in_queue(1, "alice"), launches=3), in_queue(2, "bob")
    evicted = held_by(job, 2, 100, 200)
    assert isinstance(evicted[1], AllocationEnded)
    facts = [*held_by(job, 1, 0, 100), evicted[0], replace(evicted[1], lost_from=150.0), *held_by(job, 3, 300, None)]
    write(ledger, submitted(job), submitted(idle), *facts, *held_by(idle, 1, 0, 100, milli=0))
    held = list(ledger.held(50, 400))
    assert [(one.id, one.created_at, one.ended_at, one.wasted_from) for one in held] == [
        ("1.1", 0, 100, None),
        ("1.2", 100, 200, 150),
        ("1.3", 300, None, None),
    ]
    assert {(one.user, one.job_name, one.queue, one.members[0].node) for one in held} == {("alice", "", "default", "n")}
    assert sum(time.allocations for time in ledger.allocated(50, 400)) == len(held)
    assert [one.id for one in ledger.held(0, 400, limit=2)] == ["1.1", "1.2"]
    assert list(ledger.held(0, 400, job_id="2")) == []


def test_attempts_that_failed_or_were_lost_were_for_nothing_whatever_became_of_their_job(ledger: SqlLedger) -> None:
    retried, failed, well = (replace(a_job(number), launches=launches) for number, launches in ((1, 3), (2, 1), (3, 1)))
    write(ledger, *map(submitted, (retried, failed, well)))
    again = JobChanged("1", {"phase": Phase.PENDING}, at=2.0, by="test")
    write(ledger, *attempt(retried, 1, 0, 100, Phase.FAILED), again, *attempt(retried, 2, 100, 200, Phase.LOST), again)
    write(ledger, *attempt(retried, 3, 200, 300, Phase.SUCCEEDED), *attempt(failed, 1, 0, 50, Phase.FAILED))
    write(ledger, *attempt(well, 1, 0, 50, Phase.TIMED_OUT))
    wasted = {one.id: one.wasted_from for one in ledger.held(0, 1000)}
    assert wasted == {"1.1": 0, "1.2": 100, "1.3": None, "2.1": 0, "3.1": None}
    assert {one.id: one.wasted_from for one in ledger.held(0, 90)} == {"1.1": 0, "2.1": 0, "3.1": None}


def test_of_an_attempt_that_failed_what_is_in_a_checkpoint_was_not_in_vain(ledger: SqlLedger) -> None:
    base = replace(a_job(1), launches=2)
    job = replace(base, spec=replace(base.spec, checkpoint_dir="/saved"))
    other = replace(a_job(2), launches=1)
    write(ledger, submitted(job), submitted(other))
    again = JobChanged("1", {"phase": Phase.PENDING}, at=2.0, by="test")
    write(ledger, *saved_at(70.0, attempt(job, 1, 0, 100, Phase.LOST)), again)
    write(ledger, *saved_at(60.0, attempt(job, 2, 100, 200, Phase.FAILED)))
    write(ledger, *attempt(other, 1, 0, 100, Phase.FAILED))
    wasted = {one.id: one.wasted_from for one in ledger.held(0, 1000)}
    assert wasted == {"1.1": 70.0, "1.2": 100.0, "2.1": 0.0}


def saved_at(at: float, facts: Iterable[Fact]) -> list[Fact]:
    """The facts of an attempt that named its last checkpoint at this time."""
    return [replace(fact, saved_at=at) if isinstance(fact, AllocationEnded) else fact for fact in facts]


def test_a_job_that_failed_and_is_run_again_has_wasted_what_failed(ledger: SqlLedger) -> None:
    job = replace(a_job(1), launches=1)
    write(ledger, submitted(job), *attempt(job, 1, 0, 100, Phase.FAILED))
    write(ledger, JobRequeued(replace(job, phase=Phase.PENDING), at=200.0, by="alice"))
    (held,) = ledger.held(0, 1000)
    assert held.wasted_from == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=10), st.integers(1, 99))
def test_two_periods_in_a_row_come_to_the_one_that_spans_them(spans: list[tuple[int, int]], middle: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        ledger = open_ledger(f"sqlite:///{home}/ledger.db")
        try:
            job = in_queue(1, "alice")
            facts = [fact for n, (begin, length) in enumerate(spans) for fact in held_by(job, n, begin, begin + length)]
            write(ledger, submitted(job), *facts)
            parts = [ledger.allocated(0, middle), ledger.allocated(middle, 300)]
            whole = sum(time.gpu_s for time in ledger.allocated(0, 300))
            assert sum(time.gpu_s for part in parts for time in part) == pytest.approx(whole)
            assert whole == sum(length for _, length in spans) / 2
        finally:
            ledger.close()


def test_facts_of_a_period_are_those_about_the_jobs_that_were_there(ledger: SqlLedger, tmp_path: Path) -> None:
    lives = {1: (1100.0, 1200.0), 2: (1150.0, 1300.0), 3: (1400.0, 1500.0)}
    for number, (start, end) in lives.items():
        job = a_job(number, env=(("SECRET", "s3cret"),))
        write(ledger, submitted(job), *attempt(job, 1, start, end, Phase.SUCCEEDED))
    running, waiting = a_job(4), a_job(5)
    write(ledger, submitted(running), *attempt(running, 1, 1600.0, 9999.0, Phase.SUCCEEDED)[:3], submitted(waiting))
    database = Database(url_of(tmp_path))
    reader = Reader(database)

    def about(since: float, until: float) -> list[str]:
        facts = reader.facts_between(since, until, most_jobs=4)
        assert "s3cret" not in repr(facts)
        return [fact.job.id for fact in facts if isinstance(fact, JobSubmitted)]

    assert about(0.0, 9000.0) == ["1", "2", "3", "4"]
    assert about(1250.0, 9000.0) == ["2", "3", "4"]
    assert about(1700.0, 9000.0) == ["4"]
    assert about(0.0, 1001.6) == ["1"]
    assert len(reader.facts_between(1700.0, 9000.0, most_jobs=1)) == 4
    with pytest.raises(Refused, match="4 jobs were there in this time, 1 more"):
        reader.facts_between(0.0, 9000.0, most_jobs=3)
    assert [run.ended_at for run in reader.runs_before(1300.0)] == [1200.0, 1300.0]
    database.close()
