"""A name in place of an id: the newest job of that name, one's own first, and which it was."""

import pytest

from tests.e2e.box import Box


@pytest.mark.parametrize("command", ["why", "show", "logs"])
def test_a_name_is_the_newest_job_that_is_called_so_and_which_is_said(box: Box, command: str) -> None:
    name = f"called-{command}"
    box.ended(box.submit("--gpus", "0", "--name", name, "--", "echo", "first"))
    second = box.submit("--gpus", "0", "--name", name, "--", "echo", "second")
    box.ended(second)
    by_name, by_id = box.run(command, name), box.run(command, second)
    assert (by_name.returncode, by_name.stdout) == (0, by_id.stdout)
    assert by_name.stderr == f"corral: this is job {second} (SUCCEEDED), the newest called {name}\n"


def test_a_name_of_several_elements_is_their_array_and_of_one_alone_that_one(box: Box) -> None:
    array = box.submit("--hold", "--array", "0-2", "--name", "of-all", "--", "true")
    shown = box.run("show", "of-all")
    assert f"array {array}  of-all  3 elements" in shown.stdout
    assert shown.stderr == f"corral: this is array {array}, the newest called of-all\n"
    box.ok("update", f"{array}_1", "--name", "of-one")
    assert f"job {array}_1  of-one" in box.ok("show", "of-one")


def test_a_word_that_is_neither_an_id_nor_a_name_is_answered_with_where_both_are(box: Box) -> None:
    done = box.run("why", "nobody-is-called-so")
    assert (done.returncode, done.stdout) == (1, "")
    assert "neither the id nor the name of a job; `corral ps --all` lists both" in done.stderr


def test_commands_that_change_or_enter_a_job_take_its_name_too(box: Box) -> None:
    job = box.submit("--gpus", "0", "--name", "train", "--", "sleep", "600")
    box.until_phase(job, "RUNNING")
    box.ended(box.submit("--gpus", "0", "--name", "other", "--", "true"))
    said = box.run("exec", "train", "--", "sh", "-c", "echo within $CORRAL_JOB_ID")
    assert (said.returncode, said.stdout) == (0, f"within {job}\n")
    assert said.stderr == f"corral: this is job {job} (RUNNING), the newest called train\n"
    assert f"corral-{job}" in box.ok("ssh", "--config", "train")
    assert f"updated {job}" in box.ok("update", "train", "--priority", "3")
    assert box.ok("cancel", "train") == f"cancelled {job}\n"
    assert "this is job" in box.run("wait", "train").stderr


def test_a_name_means_what_runs_before_what_has_ended_where_that_matters(box: Box) -> None:
    runs = box.submit("--gpus", "0", "--name", "twice", "--", "sleep", "600")
    ended = box.submit("--gpus", "0", "--name", "twice", "--", "true")
    box.ended(ended)
    assert f"this is job {ended} " in box.run("show", "twice").stderr
    assert box.ok("cancel", "twice") == f"cancelled {runs}\n"


def test_a_name_that_none_of_ones_own_jobs_has_changes_nothing(box: Box) -> None:
    done = box.run("cancel", "nobodys")
    assert (done.returncode, done.stdout) == (1, "")
    assert "none of your jobs is called nobodys; another user's job is changed by its id" in done.stderr
