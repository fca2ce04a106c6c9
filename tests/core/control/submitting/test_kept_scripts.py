"""What of a script is kept with its job, how much of it, and how it goes into a container."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.access.caller import Caller
from corral.core.control.launching.environment import submitted_with
from corral.core.control.submitting.containers import with_container
from corral.core.control.submitting.kept_scripts import MOST_BYTES_OF_USER, refuse_too_much_kept
from corral.core.control.submitting.new_jobs import spec_of
from corral.core.control.submitting.submission_checks import check
from corral.core.model.errors import Refused
from corral.core.model.fact import JobSubmitted
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.script_copy import MOST_BYTES, VARIABLE, kept_text
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Limits
from corral.core.model.runs.launch import Launch, without_script
from corral.core.model.view import View
from tests.core.control.submitting.test_containers import Site

MIB = 1024 * 1024
SCRIPT = Submission(("/home/me/job.sh", "a b"), script=True, script_text="#!/bin/sh -e\necho $1 $#\n", env={"A": "1"})
ALICE = Caller("alice", 1, 1)


def job_of(submission: Submission, number: int = 1, user: str = "alice") -> Job:
    return Job(str(number), number, spec_of(submission, Caller(user, 1, 1), Limits(), None), 0.0)


def test_the_text_is_kept_with_the_job_and_no_process_has_it_among_its_variables() -> None:
    job = job_of(replace(SCRIPT, env={"A": "1", VARIABLE: "of another job"}))
    assert kept_text(job.spec.env) == SCRIPT.script_text
    assert job.spec.name == "job.sh"
    assert submitted_with(job) == {"A": "1", "PYTHONUNBUFFERED": "1"}


def test_a_script_that_its_interpreter_runs_gives_the_job_its_name() -> None:
    command = ("/usr/bin/env", "python3", "/home/me/train.py", "--lr", "1")
    assert job_of(replace(SCRIPT, command=command, script_text="#!/usr/bin/env python3\n")).spec.name == "train.py"


def test_elements_of_an_array_share_one_text() -> None:
    assert job_of(SCRIPT, 1).spec.env is job_of(replace(SCRIPT), 2).spec.env


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"script": False}, "runs no script"), ({"script_text": "#!/bin/sh\n\0"}, "zero byte"),
        ({"script_text": "#!/bin/sh\n" + "é" * (MOST_BYTES // 2)}, "at most 4 MiB"),
        ({"script_text": "#!\n"}, "#!/bin/bash"),
        ({"script_text": "echo\n"}, "#!/bin/bash"), ({"git_commit": "main; rm"}, "not a commit"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(changes: dict[str, object], said: str) -> None:
    check(SCRIPT)
    with pytest.raises(Refused, match=said):
        check(replace(SCRIPT, **changes))  # type: ignore[arg-type]


def test_variables_have_no_more_room_than_before_scripts_had_theirs() -> None:
    with pytest.raises(Refused, match="which no program can receive"):
        check(replace(SCRIPT, env={"A": "x" * (4 * MIB + 1)}))


def test_jobs_of_one_user_keep_a_bounded_amount_of_large_scripts() -> None:
    large = [replace(SCRIPT, script_text=f"#!/bin/sh\n#{number}" + "x" * (4 * MIB - 20)) for number in range(17)]
    view = View().advance(
        JobSubmitted(job_of(one, at), at=0.0, by="alice") for at, one in enumerate(large[:16], start=1)
    )
    refuse_too_much_kept(view, large[3], "alice")
    refuse_too_much_kept(view, SCRIPT, "alice")
    refuse_too_much_kept(view, large[16], "bob")
    assert 17 * 4 * MIB > MOST_BYTES_OF_USER
    with pytest.raises(Refused, match="64 MiB is the limit"):
        refuse_too_much_kept(view, large[16], "alice")


def test_a_script_goes_along_to_where_its_file_is_not(tmp_path: Path) -> None:
    settled = with_container(SCRIPT, Site())
    assert settled.name == "job.sh"
    assert "/home/me" not in " ".join(settled.command)
    env = {**settled.env, "CORRAL_SCRATCH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(settled.command, env=env, capture_output=True, check=True, text=True)
    assert ran.stdout == "a b 1\n"
    assert settled.script_text is None


def test_what_no_variable_can_hold_does_not_go_into_a_container() -> None:
    with pytest.raises(Refused, match="at most 120 KiB"):
        with_container(replace(SCRIPT, script_text="#!/bin/sh\n" + "x" * 120 * 1024), Site())


def test_nodes_are_told_of_launches_that_run_without_their_scripts() -> None:
    launch = Launch("1.1", job_of(SCRIPT), ())
    bare = without_script(launch)
    assert kept_text(bare.job.spec.env) is None
    assert dict(bare.job.spec.env)["A"] == "1"
    assert without_script(bare) is bare
