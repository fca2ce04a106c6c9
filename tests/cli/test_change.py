"""Many jobs are changed with one command, and never more than its user has agreed to."""

import getpass
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from corral.cli.jobs import change
from corral.client import JobRow
from corral.core.model.jobs.job_choice import JobChoice
from tests.e2e.box import Box
from tests.e2e.terminal import corral


def waiting(box: Box, name: str, count: int) -> list[str]:
    return [box.submit("--hold", "--name", name, "--", "true") for _ in range(count)]


def phases(box: Box, ids: list[str]) -> list[str]:
    return [box.job(job_id)["phase"] for job_id in ids]


def test_more_than_one_job_that_options_choose_is_not_changed_unless_somebody_says_so(box: Box) -> None:
    ids = waiting(box, "sweep-1", 2)
    done = box.run("cancel", "--name", "sweep-*")
    assert (done.returncode, done.stdout) == (2, "")
    assert "this would cancel 2 jobs of" in done.stderr
    assert "add --yes to do it" in done.stderr
    assert phases(box, ids) == ["PENDING"] * 2
    done = box.run("cancel", "--name", "sweep-*", "--yes")
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"cancelled {job_id}" for job_id in reversed(ids)])
    assert phases(box, ids) == ["CANCELLED"] * 2


def test_one_job_is_changed_without_a_question_and_none_is_no_failure(box: Box) -> None:
    (job_id,) = waiting(box, "only", 1)
    assert box.ok("release", "--name", "only", "--user", "me") == f"released {job_id}\n"
    box.ended(job_id)
    done = box.run("hold", "--name", "only")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "corral: no job to hold matches\n")


def test_what_matches_none_of_ones_own_jobs_but_some_of_others_says_whose_to_name_and_fails() -> None:
    class Jobs:
        def __init__(self, *rows: JobRow) -> None:
            self._rows = rows

        def list(self, **_: Any) -> tuple[JobRow, ...]:
            return self._rows

    def of_others(verb: change.Verb, choice: JobChoice, *rows: JobRow) -> bool:
        client: Any = SimpleNamespace(jobs=Jobs(*rows))
        return change._say_none(client, verb, [choice])

    theirs = JobRow("1", name="qjob", user="bob")
    assert of_others("cancel", JobChoice(name="qjob"), theirs)
    assert not of_others("cancel", JobChoice(name="qjob"))
    assert not of_others("cancel", JobChoice(name="qjob", user="bob"))
    assert of_others("hold", JobChoice(name="qjob"), theirs)
    assert not of_others("release", JobChoice(name="qjob"), theirs)
    assert of_others("release", JobChoice(name="qjob"), replace(theirs, held=True))


def test_nothing_found_is_said_also_where_nobody_would_be_asked(box: Box) -> None:
    done = box.run("cancel", "--name", "nosuch", "--yes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "corral: no job to cancel matches\n")


def test_several_users_and_names_are_all_meant_not_only_the_last(box: Box) -> None:
    ids = [*waiting(box, "one", 1), *waiting(box, "two", 1)]
    assert {row["id"] for row in box.json("ps", "--json", "--name", "one", "--name", "two")} == set(ids)
    done = box.run("cancel", "--user", "me", "--user", getpass.getuser(), "--name", "one", "--name", "two", "--yes")
    assert (done.returncode, sorted(done.stdout.split())) == (0, sorted(["cancelled", *ids, "cancelled"]))
    done = box.run("cancel", "--user", "alice,bob", ids[0])
    assert (done.returncode, "only one user can be named" in done.stderr) == (2, True)


def test_only_the_jobs_that_were_listed_are_changed_however_long_the_answer_takes(box: Box) -> None:
    ids = waiting(box, "asked", 2)
    with corral(box, "cancel", "--name", "asked") as screen:
        screen.until(b"cancel 2 jobs of")
        screen.until(b"(2 PENDING)? [y/N] ")
        (late,) = waiting(box, "asked", 1)
        box.ok("cancel", ids[0])
        screen.press(b"y\n")
        assert screen.to_the_end() == 0
    assert f"cancelled {ids[1]}".encode() in screen.shown
    assert f"job {ids[0]} has already ended".encode() in screen.shown
    assert phases(box, [*ids, late]) == ["CANCELLED", "CANCELLED", "PENDING"]


@pytest.mark.parametrize("answer", [b"\n", b"no\n", b"\x04"], ids=["return", "no", "end of input"])
def test_no_answer_but_yes_changes_anything(box: Box, answer: bytes) -> None:
    ids = waiting(box, "kept", 2)
    with corral(box, "cancel", "--user", "me") as screen:
        screen.until(b"[y/N] ")
        screen.press(answer)
        assert screen.to_the_end() == 1
    assert b"nothing was changed" in screen.shown
    assert phases(box, ids) == ["PENDING"] * 2


def test_a_named_job_that_cannot_be_changed_makes_the_exit_code_1_and_what_was_changed_is_data(box: Box) -> None:
    array = box.submit("--hold", "--array", "0-5", "--", "true")
    done = box.run("cancel", "--json", f"{array}_1-3", "999")
    assert done.returncode == 1
    assert '"ids": ["' + f'{array}_1", "{array}_2", "{array}_3"]' in done.stdout
    assert done.stderr.startswith("corral: there is no job 999")
    done = box.run("cancel", array, "--state", "running")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not among the jobs of this user, name, array or state" in done.stderr


@pytest.mark.parametrize("words", [[], ["--state", "pendin"], ["17_3-"], ["--user", "nobody-at-all"]])
def test_what_chooses_no_jobs_is_refused(box: Box, words: list[str]) -> None:
    done = box.run("cancel", *words)
    expected = 0 if "--user" in words else 2
    assert (done.returncode, done.stdout) == (expected, "")


def test_elements_of_an_array_are_named_by_ranges_in_every_command(box: Box) -> None:
    array = box.submit("--hold", "--array", "0-9", "--begin", "now+1hour", "--", "true")
    assert box.ok("release", f"{array}_[1,3,5-7]").split()[1::2] == [f"{array}_{at}" for at in (1, 3, 5, 6, 7)]
    assert box.ok("hold", f"{array}_3-5").split()[1::2] == [f"{array}_{at}" for at in (3, 4, 5)]
    assert box.ok("cancel", f"{array}_[0-9:2]", f"{array}_[0-2]", f"{array}_0").count("\n") == 6
    assert f"array {array}_[2-4]" in box.ok("show", f"{array}_[2-4]")
    assert f"array {array}_[2-4] has 3 elements" in box.ok("why", f"{array}_[2-4]")
    assert box.run("wait", f"{array}_[0,2]").returncode == 1
    assert box.ok("cancel", f"{array}_*").count("\n") == 4


@pytest.mark.parametrize("verb", ["cancel", "hold", "release", "requeue", "wait", "show", "why", "logs"])
def test_what_names_no_elements_is_answered_with_what_would_and_which_there_are(box: Box, verb: str) -> None:
    array = box.submit("--hold", "--array", "0-9", "--", "true")
    wrong = box.run(verb, f"{array}_[1,,3]")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"write {array}_3, {array}_[3-9], {array}_[1,3,5-9] or {array}_*" in wrong.stderr
    assert box.run(verb, f"{array}_[0-999999999]").stderr.endswith("an array has at most 10,000\n")
    missing = box.run(verb, f"{array}_[10-12]")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert f"array {array} has no {array}_[10-12]; its elements are {array}_[0-9]" in missing.stderr


def test_where_one_job_is_meant_an_array_is_answered_with_its_elements(box: Box) -> None:
    array = box.submit("--gpus", "1", "--array", "0-3", "--", "sleep", "600")
    box.until_phase(f"{array}_0", "RUNNING")
    done = box.run("logs", array)
    assert done.returncode == 1
    assert f"name one of its elements, such as {array}_0: {array}_[1-3] PENDING, {array}_0 RUNNING" in done.stderr
    assert f"elements of this array are {array}_[0-3]" in box.run("logs", f"{array}_4").stderr
