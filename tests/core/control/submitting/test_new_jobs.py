from dataclasses import replace

import pytest

from corral.core.access.caller import Caller
from corral.core.control.submitting.new_jobs import admit, completed, jobs_of, program_of, spec_of
from corral.core.model.errors import Refused
from corral.core.model.fact import JobSubmitted
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.core.model.queues.queue import Limits
from tests.core.control.strategies import box, job, with_jobs

ALICE = Caller("alice")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/bin/env", "env"),
        ("python train.py --lr 1", "train.py"),
        ("/opt/bin/python3.11 -u /home/a/train.py", "train.py"),
        ("python -m torch.distributed.run train.py", "torch.distributed.run"),
        ("python -c print()", "python"),
        ("sh -c true", "sh"),
        ("bash -x sweep.sh", "sweep.sh"),
        ("python", "python"),
        ("pythonic train.py", "pythonic"),
    ],
)
def test_a_job_without_a_name_is_called_by_its_program_or_the_script_it_runs(command: str, name: str) -> None:
    assert program_of(command.split()) == name


def test_the_speeds_of_a_submission_are_the_jobs() -> None:
    speeds = (("V100", 1.0), ("K80", 0.2))
    assert spec_of(Submission(command=("true",), speeds=speeds), ALICE, Limits(), None).speeds == speeds


def test_a_job_is_called_as_its_owner_says_and_a_session_by_its_kind() -> None:
    named = Submission(("python", "train.py"), name="sft")
    assert spec_of(named, ALICE, Limits(), None).name == "sft"
    assert spec_of(Submission(kind=JobKind.RESERVE), ALICE, Limits(), None).name == "reserve"


def test_what_a_submission_leaves_open_is_the_sites_and_what_it_says_is_its_own() -> None:
    site = Limits(default_priority=3, default_retries=2, max_time_limit_s=60.0)
    left_open = completed(Submission(("true",)), site)
    assert (left_open.priority, left_open.retries, left_open.time_limit_s) == (3, 2, 60.0)
    said = completed(Submission(("true",), priority=7, retries=0, time_limit_s=5.0), site)
    assert (said.priority, said.retries, said.time_limit_s) == (7, 0, 5.0)


def test_sessions_are_not_tried_again_and_what_ran_before_corral_has_no_time_limit() -> None:
    site = Limits(default_retries=2, max_time_limit_s=60.0)
    adopted = completed(Submission(kind=JobKind.ADOPT), site)
    reserved = completed(Submission(kind=JobKind.RESERVE), site)
    assert (adopted.retries, adopted.time_limit_s) == (0, None)
    assert (reserved.retries, reserved.time_limit_s) == (0, 60.0)


def test_an_array_is_a_job_an_element_under_the_arrays_id_and_each_takes_a_number() -> None:
    swept = Submission(("true",), array=ArraySpec((3, 5), 1))
    spec = spec_of(swept, ALICE, Limits(), None)
    jobs = jobs_of(swept, spec, ("7", "8", "9"), 0.0)
    assert [(one.id, one.sequence, one.array_id, one.array_index) for one in jobs] == [
        ("7_3", 8, "7", 3),
        ("7_5", 9, "7", 5),
    ]
    (alone,) = jobs_of(Submission(("true",)), spec, ("7",), 0.0)
    assert (alone.id, alone.sequence, alone.array_id) == ("7", 7, None)


def test_a_job_is_not_eligible_before_its_begin_time_and_one_that_is_past_is_no_bar() -> None:
    later = Submission(("true",), begin_at=60.0)
    spec = spec_of(later, ALICE, Limits(), None)
    assert [one.eligible_at for one in jobs_of(later, spec, ("7",), 5.0)] == [60.0]
    assert [one.eligible_at for one in jobs_of(later, spec, ("7",), 60.0)] == [None]
    swept = replace(later, array=ArraySpec((0, 1)))
    assert [one.eligible_at for one in jobs_of(swept, spec, ("7", "8", "9"), 5.0)] == [60.0, 60.0]


def test_a_follower_waits_for_a_parent_that_may_still_succeed_and_one_that_nobody_knows_is_refused() -> None:
    view = with_jobs(box(), job(1))
    (fact,) = admit(view, [replace(job(2, after=("1",)), waits_for=())], lambda _: (), "alice", 5.0).facts
    assert isinstance(fact, JobSubmitted)
    assert fact.job.waits_for == ("1",)
    with pytest.raises(Refused, match="--after 9: there is no job 9; `corral ps --all` lists"):
        admit(view, [job(2, after=("9",))], lambda _: (), "alice", 5.0)
