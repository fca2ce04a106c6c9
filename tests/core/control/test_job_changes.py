"""Many jobs are changed for one request: whose, which, what is told of the rest, and that no others are."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.control.changing import job_changes
from corral.core.control.changing.job_changes import Verb
from corral.core.lifecycle.phase_changes import held_by_server
from corral.core.model.answers.job_changes import ChangedJobs
from corral.core.model.devices.device import Silence
from corral.core.model.errors import Forbidden, NotFound, Refused
from corral.core.model.fact import SilenceObserved
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_choice import JobChoice
from corral.core.model.jobs.job_filter import JobFilter
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import Decided
from tests.core.control.cluster import on, until
from tests.core.control.test_service import ALICE, ARRAY, BOB, OVERSEER, ROOT, TRUE, Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, "a", "b")
    yield served
    served.close()


def named(served: Served, *names: str) -> list[str]:
    """Jobs of Alice's with these names."""
    return [served.submit(replace(TRUE, name=name)) for name in names]


def one_named(served: Served, name: str) -> str:
    (job_id,) = named(served, name)
    return job_id


def cancel(served: Served, choice: JobChoice) -> ChangedJobs:
    return served.service.changes.many(Verb.CANCEL, choice, ALICE)


def test_a_name_chooses_among_ones_own_jobs_that_have_not_ended_the_newest_first(served: Served) -> None:
    ended, first, _, second = named(served, "sweep-0", "sweep-1", "other", "sweep-2")
    served.do("cancel", ended)
    served.submit(replace(TRUE, name="sweep-3"), BOB)
    found = cancel(served, JobChoice(name="sweep-*"))
    assert (found.ids, found.unchanged, found.users) == ((second, first), (), ("alice",))


def test_what_is_done_to_many_jobs_is_one_commit(served: Served) -> None:
    named(served, *["sweep"] * 20)
    before = len(served.ledger.journal())
    version = served.ledger.view().version
    assert len(cancel(served, JobChoice(user="me")).ids) == 20
    assert (len(served.ledger.journal()) - before, served.ledger.view().version - version) == (20, 20)


def test_a_dry_run_tells_the_same_and_changes_nothing(served: Served) -> None:
    served.running(one_named(served, "one"), on("a", 0))
    named(served, "two", "three")
    told = cancel(served, JobChoice(user="me", dry_run=True))
    assert (len(told.ids), told.phases) == (3, {"PENDING": 2, "RUNNING": 1})
    assert {job.phase for job in served.ledger.view().jobs.values()} == {Phase.PENDING, Phase.RUNNING}
    assert cancel(served, JobChoice(user="me")) == told


def test_what_runs_of_many_cancelled_jobs_is_stopped(served: Served) -> None:
    job_id = served.running(one_named(served, "one"), on("a", 0))
    cancel(served, JobChoice(user="me", phase=(Phase.RUNNING,)))
    until(lambda: served.phase_of(job_id) is Phase.CANCELLED)


def test_a_cancelled_job_on_a_node_that_does_not_answer_is_said_to_end_when_the_node_is_back(served: Served) -> None:
    runs = served.running(one_named(served, "one"), on("a", 0))
    served.ledger.observe([SilenceObserved("a", Silence(0.0, "no route"))])
    until(lambda: "a" in served.ledger.view().silences)
    found = cancel(served, JobChoice((runs,)))
    assert found.notes == (f"node a does not answer: what job {runs} has there ends when it is back",)


def test_jobs_of_others_are_changed_by_administrators_who_name_their_user(served: Served) -> None:
    named(served, "one", "two")
    for caller in (BOB, OVERSEER):
        with pytest.raises(Forbidden):
            served.service.changes.many(Verb.CANCEL, JobChoice(user="alice"), caller)
    assert served.service.changes.many(Verb.CANCEL, JobChoice(name="*"), ROOT).ids == ()
    assert len(served.service.changes.many(Verb.CANCEL, JobChoice(user="alice"), ROOT).ids) == 2


def test_of_ids_each_that_cannot_be_changed_is_told_with_its_reason_and_the_others_are_changed(served: Served) -> None:
    (mine,) = named(served, "one")
    gone = served.ended(served.submit(), on("a", 0), exit_code=0)
    foreign = served.submit(TRUE, BOB)
    array = served.submit(ARRAY)
    found = cancel(served, JobChoice((mine, gone, "999", foreign, f"{array}_1", f"{array}_7")))
    assert found.ids == (mine, f"{array}_1")
    assert [(one.id, one.reason.split(";")[0]) for one in found.unchanged] == [
        (gone, f"job {gone} has already ended (SUCCEEDED)"),
        ("999", "there is no job 999"),
        (foreign, f"job {foreign} belongs to bob"),
        (f"{array}_7", f"there is no job {array}_7"),
    ]


def test_what_is_said_besides_ids_chooses_among_them(served: Served) -> None:
    array = served.submit(ARRAY)
    served.running(f"{array}_0", on("a", 0))
    (waits,) = named(served, "waits")
    found = cancel(served, JobChoice((array, waits), name="true", phase=(Phase.PENDING,)))
    assert found.ids == (f"{array}_1", f"{array}_2")
    assert [one.id for one in found.unchanged] == [waits]
    assert "is not among the jobs" in found.unchanged[0].reason


def test_an_element_that_is_named_besides_its_array_is_changed_once(served: Served) -> None:
    array = served.submit(ARRAY)
    served.do("hold", f"{array}_1")
    served.do("cancel", f"{array}_2")
    found = served.service.changes.many(Verb.RELEASE, JobChoice((array, f"{array}_1", f"{array}_2")), ALICE)
    assert sorted(found.ids) == [f"{array}_0", f"{array}_1"]
    assert [one.id for one in found.unchanged] == [f"{array}_2"]
    found = cancel(served, JobChoice((f"{array}_0", array)))
    assert (sorted(found.ids), found.unchanged, found.phases) == ([f"{array}_0", f"{array}_1"], (), {"PENDING": 2})


def test_a_phase_that_is_named_very_often_costs_as_much_as_named_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job_id,) = named(served, "one")
    asked: list[int] = []
    has = JobFilter.has

    def has_told(chosen: JobFilter, job: Job) -> bool:
        asked.append(len(chosen.phases))
        return has(chosen, job)

    monkeypatch.setattr(JobFilter, "has", has_told)
    phases = (Phase.FAILED,) * 50_000 + (Phase.PENDING,)
    assert cancel(served, JobChoice(phase=phases)).ids == (job_id,)
    assert set(asked) == {2}


def test_several_names_choose_as_they_do_in_a_listing(served: Served) -> None:
    first, _, second, third = named(served, "a-1", "other", "b", "c,d")
    assert cancel(served, JobChoice(name="a-*,b")).ids == (second, first)
    assert cancel(served, JobChoice(name="c,d")).ids == (third,)


@pytest.mark.parametrize("name", ["a" * 2001, "a," * 100], ids=["long", "many"])
def test_a_name_that_takes_long_to_compare_is_refused(served: Served, name: str) -> None:
    with pytest.raises(Refused, match=r"name: .* (2,000|100)"):
        cancel(served, JobChoice(name=name))


def test_hold_and_release_mean_jobs_that_wait_and_are_not_so_yet(served: Served) -> None:
    served.running(one_named(served, "runs"), on("a", 0))
    first, second = named(served, "one", "two")
    served.do("hold", first)
    changes = served.service.changes
    assert changes.many(Verb.HOLD, JobChoice(user="me"), ALICE).ids == (second,)
    assert changes.many(Verb.RELEASE, JobChoice(user="me"), ALICE).ids == (second, first)


def test_a_job_that_the_server_holds_is_released_by_an_administrator_alone(served: Served) -> None:
    held, mine = named(served, "held", "mine")
    because = held_by_server(served.ledger.view().jobs[held], "2 GPUs fell sick", at=1.0, by="corral:health-watch")
    served.ledger.commit(lambda _: Decided((because,), None)).result()
    served.do("hold", mine)
    with pytest.raises(Forbidden, match=f"job {held} is held because 2 GPUs fell sick; only an administrator"):
        served.service.changes.one(Verb.RELEASE, held, ALICE)
    told = served.service.changes.many(Verb.RELEASE, JobChoice(ids=(held, mine)), ALICE)
    assert (told.ids, [one.id for one in told.unchanged]) == ((mine,), [held])
    assert served.service.changes.one(Verb.RELEASE, held, ROOT) == (held,)
    assert served.ledger.view().jobs[held].held_because is None


def test_requeue_means_jobs_that_failed_and_others_only_where_that_is_said(served: Served) -> None:
    ran = served.running(one_named(served, "runs"), on("a", 0))
    failed = [served.ended(served.submit(), on("b", index), exit_code=1) for index in range(2)]
    changes = served.service.changes
    assert changes.many(Verb.REQUEUE, JobChoice(user="me"), ALICE).ids == tuple(reversed(failed))
    assert changes.many(Verb.REQUEUE, JobChoice(user="me"), ALICE).ids == ()
    assert changes.many(Verb.REQUEUE, JobChoice(phase=(Phase.RUNNING,)), ALICE).ids == (ran,)


def test_a_job_that_is_cancelled_with_the_one_it_follows_counts_as_changed(served: Served) -> None:
    (first,) = named(served, "one")
    second = served.submit(replace(TRUE, after=(first,)))
    found = cancel(served, JobChoice((first, second)))
    assert (found.ids, found.unchanged) == ((first, second), ())
    assert {served.phase_of(first), served.phase_of(second)} == {Phase.CANCELLED}


def test_more_than_are_changed_at_once_are_changed_page_by_page(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = named(served, *"abcde")
    monkeypatch.setattr(job_changes, "MOST_AT_ONCE", 2)
    found, pages = cancel(served, JobChoice(user="me")), 1
    touched = list(found.ids)
    while found.next is not None:
        found, pages = cancel(served, JobChoice(user="me", before=found.next)), pages + 1
        touched += found.ids
    assert (sorted(touched), pages) == (sorted(ids), 3)
    with pytest.raises(Refused, match="2 jobs at most"):
        cancel(served, JobChoice(("1", "2", "3")))


def test_failed_jobs_are_found_by_their_name_however_many_others_failed_since(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = served.ended(one_named(served, "sweep-1"), on("a", 0), exit_code=1)
    for index in range(3):
        served.ended(one_named(served, "other"), on("b", index), exit_code=1)
    monkeypatch.setattr(job_changes, "MOST_AT_ONCE", 2)
    found = served.service.changes.many(Verb.REQUEUE, JobChoice(name="nothing,sweep-*"), ALICE)
    assert (found.ids, found.next) == ((wanted,), None)


BEYOND = [JobChoice(user="me", before=before) for before in (-1, 2**63, 10**400)]


@pytest.mark.parametrize("choice", [JobChoice(), JobChoice(before=3), JobChoice(name="x" * 3000), *BEYOND])
def test_a_choice_of_nothing_in_particular_is_refused(served: Served, choice: JobChoice) -> None:
    with pytest.raises(Refused):
        cancel(served, choice)


def test_elements_named_by_ranges_are_changed_as_those_of_an_array_and_each_once(served: Served) -> None:
    array = served.submit(ARRAY)
    served.do("cancel", f"{array}_0")
    found = cancel(served, JobChoice((f"{array}_[0-1]", f"{array}_1-2")))
    assert (found.ids, found.unchanged) == ((f"{array}_1", f"{array}_2"), ())


def test_where_an_array_lacks_a_named_element_nothing_is_changed(served: Served) -> None:
    array = served.submit(ARRAY)
    with pytest.raises(NotFound, match=rf"array {array} has no {array}_\[3-5\]; its elements are {array}_\[0-2\]"):
        cancel(served, JobChoice((f"{array}_[1-5]",)))
    assert cancel(served, JobChoice((array,), dry_run=True)).phases == {"PENDING": 3}


def test_one_request_names_no_more_elements_than_an_array_may_have(served: Served) -> None:
    with pytest.raises(Refused, match="name more than 10,000 elements"):
        cancel(served, JobChoice(("17_[0-9000]", "18_[0-9000]")))
