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
