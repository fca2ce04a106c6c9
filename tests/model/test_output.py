"""The files that patterns name."""

import pytest

from corral.model.errors import Refused
from corral.model.job import Job, JobSpec
from corral.model.output import check_pattern, path_of

SPEC = JobSpec("alice", name="sft")
ELEMENT = Job("7_3", 9, SPEC, 0.0, array_id="7", array_index=3)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("train.out", "train.out"),
        ("%x-%j.out", "sft-7_3.out"),
        ("logs/%A_%a.err", "logs/7_3.err"),
        ("%A_%4a.out", "7_0003.out"),
        ("%u@%N", "alice@gpu1"),
        ("100%%-%n%t", "100%-00"),
    ],
)
def test_a_pattern_names_a_file_of_each_element(pattern: str, path: str) -> None:
    check_pattern(pattern, "output")
    assert path_of(pattern, ELEMENT, "gpu1.example.org") == path


def test_outside_an_array_the_job_is_its_own_array_and_its_index_none_as_in_slurm() -> None:
    assert path_of("%A_%a", Job("7", 7, SPEC, 0.0), "gpu1") == "7_4294967294"


@pytest.mark.parametrize("pattern", ["", "a\nb", "%", "out.%q", "%3%", "x" * 5000])
def test_a_pattern_that_means_nothing_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(Refused, match=r"^--output: ") as refused:
        check_pattern(pattern, "--output")
    assert refused.value.field == "--output"
