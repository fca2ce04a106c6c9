"""Commands about jobs that are there already, on a running server."""

import pytest

from tests.e2e.box import PATIENCE_S, Box, line_of


def test_a_job_that_cannot_be_cancelled_keeps_nobody_else_from_it(box: Box) -> None:
    gone, first, second = (box.submit("--hold", "--", "true") for _ in range(3))
    box.ok("cancel", gone)
    done = box.run("cancel", first, gone, "999", second)
    assert (done.returncode, done.stdout.splitlines()) == (1, [f"cancelled {first}", f"cancelled {second}"])
    assert [line.split(";")[0] for line in done.stderr.splitlines()] == [
        f"corral: job {gone} has already ended (CANCELLED)",
        "corral: there is no job 999",
    ]


@pytest.mark.parametrize("timeout", ["0.05s", "1"])
def test_a_wait_ends_with_its_own_time_of_which_a_bare_number_is_seconds(box: Box, timeout: str) -> None:
    job = box.submit("--hold", "--", "true")
    done = box.run("wait", job, "--timeout", timeout)
    assert (done.returncode, "1 of 1 jobs had not ended" in done.stderr) == (124, True)


def test_a_job_that_waits_says_why_it_has_no_output_and_shows_it_once_there_is_some(box: Box) -> None:
    job = box.submit("--hold", "--name", "it waits for us", "--", "seq", "3")
    notice = (
        f"corral: job {job} has no log until it starts; it waits: it is on hold; `corral release {job}` lets it start"
    )
    done = box.run("logs", job)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (0, "", notice)
    following = box.start("logs", "--follow", "-n", "2", job)
    assert line_of(following.stderr) == f"{notice}\n"
    box.ok("release", job)
    assert following.communicate(timeout=PATIENCE_S) == ("1\n2\n3\n", "")
    assert box.ok("logs", "-n", "2", job) == "2\n3\n"


def test_a_name_that_no_job_has_is_told_from_an_id_that_is_not_there(box: Box) -> None:
    for command in ("cancel", "hold", "wait"):
        said = box.run(command, "no-such-name").stderr
        assert "no-such-name" in said, said
        assert "name" in said.replace("no-such-name", "") or "called" in said, said
        assert "there is no job 999" in box.run(command, "999").stderr


def test_a_job_that_never_ran_is_said_to_have_no_log(box: Box) -> None:
    job = box.submit("--hold", "--", "true")
    box.ok("cancel", job)
    done = box.run("logs", job)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"corral: job {job} (true) cancelled by ")
    assert done.stderr.endswith("; it never ran, and has no log\n")


def test_whoever_reads_the_beginning_of_a_log_only_gets_no_complaint(box: Box) -> None:
    job = box.submit("--", "seq", "200000")
    box.ok("wait", job)
    with box.start("logs", "-n", "150000", job) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == "50001\n"
        reading.stdout.close()
        assert reading.stderr.read() == ""


def test_jobs_are_updated_each_by_itself(box: Box) -> None:
    first, second = (box.submit("--hold", "--", "true") for _ in range(2))
    box.ok("cancel", first)
    done = box.run("update", first, second, "--priority", "2", "--time", "2h", "--name", "new", "--queue", "default")
    assert (done.returncode, done.stdout) == (1, f"updated {second}\n")
    assert done.stderr.startswith(f"corral: job {first} has already ended (CANCELLED)")
    row = box.job(second)
    assert (row["priority"], row["time_limit_s"], row["name"]) == (2, 7200.0, "new")


def test_some_elements_of_an_array_are_updated_each_once(box: Box) -> None:
    array = box.submit("--hold", "--array", "0-3", "--", "true")
    done = box.run("update", f"{array}_1-2", f"{array}_2", "--name", "new")
    assert (done.returncode, done.stdout) == (0, f"updated {array}_1\nupdated {array}_2\n")


@pytest.mark.parametrize(
    "words", [[], ["--time", "5"], ["--priority", "9999999999"], ["--queue", "nope"], ["--name", ""]]
)
def test_an_update_that_makes_no_sense_is_refused_with_2(box: Box, words: list[str]) -> None:
    job = box.submit("--hold", "--", "true")
    done = box.run("update", job, *words)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_running_job_is_ended_at_its_new_time_limit_and_its_log_says_who_set_it(box: Box) -> None:
    job = box.submit("--time", "1h", "--", "sleep", "600")
    box.until_phase(job, "RUNNING")
    box.ok("update", job, "--time", "0.2s")
    assert box.run("wait", job).returncode == 1
    assert box.job(job)["phase"] == "TIMED_OUT"
    assert " changed its time limit from 1h to <1s" in box.ok("logs", job)
