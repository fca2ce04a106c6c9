"""The files that patterns name."""

from dataclasses import replace

import pytest

from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.output import OutputFiles, check_pattern, output_files

SPEC = JobSpec("alice", name="sft", workdir="/work")
ELEMENT = Job("7_3", 9, SPEC, 0.0, array_id="7", array_index=3)


GANG = ["a", "a", "b"]


def told(job: Job, output: str | None, error: str | None, nodes: list[str]) -> tuple[OutputFiles, ...]:
    return output_files(replace(job, spec=replace(job.spec, output=output, error=error)), nodes)


def files(job: Job, pattern: str, nodes: list[str]) -> list[str | None]:
    return [one.output for one in told(job, pattern, None, nodes)]


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
    assert files(ELEMENT, pattern, nodes=["gpu1.example.org"]) == [f"/work/{path}"]


def test_outside_an_array_the_job_is_its_own_array_and_its_index_none_as_in_slurm() -> None:
    assert files(Job("7", 7, SPEC, 0.0), "%A_%a", nodes=["gpu1"]) == ["/work/7_4294967294"]


@pytest.mark.parametrize("pattern", ["", "a\nb", "%", "out.%q", "%3%", "x" * 5000])
def test_a_pattern_that_means_nothing_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(Refused, match=r"^--output: ") as refused:
        check_pattern(pattern, "--output")
    assert refused.value.field == "--output"


def test_output_that_nobody_wants_elsewhere_is_in_the_log_without_a_word() -> None:
    assert told(ELEMENT, None, None, GANG) == (OutputFiles(),) * 3


def test_members_have_files_of_their_own_by_rank_or_node() -> None:
    assert files(ELEMENT, "%j-%t.out", GANG) == ["/work/7_3-0.out", "/work/7_3-1.out", "/work/7_3-2.out"]
    assert files(ELEMENT, "%N-%n.out", GANG) == ["/work/a-0.out", None, "/work/b-1.out"]


def test_one_file_is_never_written_by_two_members_and_the_others_logs_say_so() -> None:
    first, second, _ = told(ELEMENT, "out", None, GANG)
    assert (first.output, first.note) == ("/work/out", "standard output and error go to /work/out")
    assert (second.output, second.error) == (None, None)
    assert second.note == "a lower rank writes to /work/out; with %t in its name each rank has a file"


def test_what_one_member_writes_its_output_to_is_no_others_error_file() -> None:
    _, second, _ = told(ELEMENT, "log.%t", "log.0", GANG)
    assert (second.output, second.error) == ("/work/log.1", None)


def test_of_a_script_only_the_rank_that_runs_it_has_files() -> None:
    script = replace(ELEMENT, spec=replace(SPEC, script=True))
    assert files(script, "%t.out", GANG) == ["/work/0.out", None, None]
    assert told(script, "out", None, GANG)[1].note is None


def test_the_log_says_which_of_both_is_elsewhere() -> None:
    (alone,) = told(ELEMENT, "out", "err", ["a"])
    assert alone.note == "standard output goes to /work/out; standard error goes to /work/err"
    (errors,) = told(ELEMENT, None, "err", ["a"])
    assert (errors.output, errors.error, errors.note) == (None, "/work/err", "standard error goes to /work/err")
