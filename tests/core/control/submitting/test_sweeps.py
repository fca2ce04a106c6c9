from dataclasses import replace
from typing import Any

import pytest

from corral.core.access.caller import Caller
from corral.core.control.submitting.new_jobs import ids_needed, jobs_of, spec_of
from corral.core.control.submitting.submission_checks import check
from corral.core.control.submitting.sweeps import check_text, first_of
from corral.core.ledger.table_rows import job_of, job_row, spec_row
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.core.model.jobs.sweep import Sweep
from corral.core.model.queues.queue import Limits

TRAIN = Submission(
    ("python", "train.py", "--lr={lr}", "{x}"),
    name="run-{lr}",
    output="%j-{lr}.out",
    error="{seed}.err",
    workdir="/runs/{seed}",
    env={"HOME": "/home/a"},
    sweep=Sweep({"lr": ("0.1", "5%"), "seed": ("0", "1")}, limit=2),
)


def jobs(submission: Submission) -> tuple[Job, ...]:
    ids = [str(number) for number in range(17, 17 + ids_needed(submission))]
    return jobs_of(submission, spec_of(submission, Caller("alice"), Limits(), None), ids, 0.0)


def test_each_job_of_a_sweep_has_its_values_in_its_texts_and_by_name() -> None:
    first, _, _, last = jobs(TRAIN)
    assert (first.id, last.id, last.array_id, last.array_index, last.array_limit) == ("17_0", "17_3", "17", 3, 2)
    assert first.spec.command == ("python", "train.py", "--lr=0.1", "{x}")
    assert (last.spec.name, last.spec.workdir) == ("run-5%", "/runs/1")
    assert (last.spec.output, last.spec.error) == ("%j-5%%.out", "1.err")
    assert last.spec.params == (("lr", "5%"), ("seed", "1"))
    assert last.title == "run-5% (lr=5% seed=1)"


def test_the_jobs_of_a_sweep_share_what_they_have_in_common() -> None:
    first, *_, last = jobs(TRAIN)
    assert first.spec.env is last.spec.env
    assert first.spec.request is last.spec.request


def test_a_job_of_a_sweep_comes_back_from_the_ledger_with_its_values() -> None:
    last = jobs(replace(TRAIN, env={}))[-1]
    assert job_of(job_row(last, spec_row(last.spec)), {}) == last


def test_a_job_kept_before_there_were_sweeps_has_no_parameters() -> None:
    (alone,) = jobs(Submission(("true",)))
    row = job_row(alone, spec_row(alone.spec))
    assert "params" not in row["spec"]
    assert job_of(row, {}).spec.params == ()


def test_files_are_looked_at_as_the_first_job_names_them() -> None:
    first = first_of(TRAIN)
    assert (first.workdir, first.env) == ("/runs/0", {"HOME": "/home/a", "lr": "0.1", "seed": "0"})
    assert first_of(Submission(("{lr}",))) == Submission(("{lr}",))
    for unchecked in (Sweep({}), Sweep({"lr": ()})):
        assert first_of(replace(TRAIN, command=("{}",), sweep=unchecked)).workdir == "/runs/{seed}"


def test_a_text_that_would_grow_beyond_all_measure_is_refused_and_never_made() -> None:
    grown = replace(TRAIN, command=("{a}" * 1_000_000,), sweep=Sweep({"a": ("x" * 1000,)}))
    assert first_of(grown) is grown
    with pytest.raises(Refused, match=r"come to 2,003,\d{3},\d{3} characters; at most 67,108,864 are allowed"):
        check(grown)
    large = replace(TRAIN, command=("{a}" + "x" * 10_000,), sweep=Sweep({"a": tuple(map(str, range(4000)))}))
    check(large)
    with pytest.raises(Refused, match="all jobs together"):
        check_text([large, large])
    check_text([replace(large, env={"A": "x" * 1_000_000})])


def test_an_array_whose_jobs_would_fill_the_disk_with_the_same_text_is_refused() -> None:
    thousand = ArraySpec(tuple(range(1000)))
    check(Submission(("true", "x" * 60_000), array=thousand))
    with pytest.raises(Refused, match=r"^array: .* may come to 100,\d{3},\d{3} characters") as refused:
        check(Submission(("true", "x" * 100_000), array=thousand))
    assert refused.value.field == "array"
    with pytest.raises(Refused, match=r"^params: "):
        check(replace(TRAIN, command=("x" * 100_000,), sweep=Sweep({"a": tuple(map(str, range(1000)))})))
    check(Submission(("true", "x" * 1_000_000)))


def sweep(*, zipped: Any = False, limit: Any = None, **params: Any) -> Submission:
    return Submission(("true",), sweep=Sweep({n: tuple(map(str, v)) for n, v in params.items()}, zipped, limit))


def test_a_sweep_of_as_many_jobs_as_an_array_may_have_is_accepted() -> None:
    check(TRAIN)
    check(sweep(a=range(100), b=range(100)))
    check(sweep(a=[1, 1], b=[1, 2], zipped=True))
    check(sweep(OMP_NUM_THREADS=[1, 2], path="a", _x1="a"))


@pytest.mark.parametrize(
    ("submission", "said"),
    [
        (sweep(a=range(101), b=range(100)), r"10,100 jobs \(101 x 100\) are 100 more than the 10,000"),
        (sweep(a=range(10**4), b=range(10**4), c=range(10**4), d=range(10**4)), "10,000,000,000,000,000 jobs"),
        (sweep(a=range(10_001)), "10,001 jobs are 1 more"),
        (sweep(a=range(3), b=range(2), zipped=True), "a has 3, b has 2"),
        (sweep(), "from 1 to 20"),
        (sweep(**{f"p{n}": "1" for n in range(21)}), "from 1 to 20, not 21"),
        (sweep(a=[]), "a has no values"),
        (sweep(a=[""]), "a has an empty value"),
        (sweep(a=["\x1b[2J"]), "printable"),
        (sweep(a=["x" * 1001]), "at most 1000"),
        (sweep(**{f"p{n}": ["x" * 1000] for n in range(5)}), "up to 5000 characters"),
        (sweep(a=[1, 2, 1]), "a has the value 1 2 times"),
        (sweep(a=[1], limit=0), "from 1 to 10000, not 0"),
        (replace(sweep(a=["x" * 200]), name="n-{a}"), "up to 202 characters; at most 200"),
        (replace(TRAIN, array=ArraySpec((0,))), "--array and --param"),
        (replace(sweep(a=[1]), command=(), kind=JobKind.RESERVE), "run a command"),
    ],
)
def test_a_sweep_that_cannot_be_made_is_refused_with_the_reason(submission: Submission, said: str) -> None:
    with pytest.raises(Refused, match=said):
        check(submission)


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "é", "x" * 65, "a\n"])
def test_a_name_that_no_variable_can_have_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="is not a name"):
        check(sweep(**{name: [1]}))


@pytest.mark.parametrize("name", ["PATH", "HOME", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "CORRAL_JOB_ID", "RANK"])
def test_a_name_of_a_variable_that_jobs_need_is_refused(name: str) -> None:
    with pytest.raises(Refused, match=f"{name} would change a variable"):
        check(sweep(**{name: [1]}))
