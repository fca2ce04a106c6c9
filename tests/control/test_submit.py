import pytest

from corral.control.caller import Caller
from corral.control.submit import program_of, spec_of
from corral.model.queue import Limits
from corral.model.submission import Submission


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
    assert spec_of(Submission(command=("true",), speeds=speeds), Caller("alice"), Limits(), None).speeds == speeds
