"""Mixed device models: the published order of policies, and jobs that go where they run fastest."""

from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.sim.benchmarks.gavel import GavelJob, read_trace, simulate
from corral.sim.reports.history import History
from tests.sim.conftest import Recorded

HALF_HOUR_OF_STEPS = 1800.0


@pytest.fixture(scope="module")
def jobs(recorded: Recorded) -> list[GavelJob]:
    return read_trace(recorded("gavel/multi_seed0.csv"))


def test_fifo_is_within_a_tenth_of_the_published_runs(jobs: list[GavelJob]) -> None:
    cluster = {"v100": 36, "p100": 36, "k80": 36}
    report = simulate(jobs, rate=1.0, cluster=cluster, policy="fifo", measure=(4000, 4999))
    assert report["mean_jct_h"] == pytest.approx(20.05, rel=0.1)
    assert report["mean_jct_h"] == pytest.approx(18.98, abs=0.01), "as an independent program has it"


def trace(count: int, gpus: int = 1, **throughput: float) -> list[GavelJob]:
    return [GavelJob(0.0, gpus, HALF_HOUR_OF_STEPS, throughput or {"fast": 1.0, "slow": 0.5}) for _ in range(count)]


def mean_h(policy: str, jobs: list[GavelJob], **cluster: int) -> float:
    report = simulate(jobs, rate=1.0, cluster=cluster, policy=policy, measure=(0, len(jobs) - 1))
    return float(report["mean_jct_h"])


def test_a_job_goes_where_it_runs_fastest() -> None:
    upside_down = trace(1, slow=4.0, fast=1.0)
    assert mean_h("corral", upside_down, fast=1, slow=1) == pytest.approx(0.125)
    assert mean_h("fifo", upside_down, fast=1, slow=1) == pytest.approx(0.5)


def test_a_job_never_runs_on_a_model_that_it_cannot_use() -> None:
    assert mean_h("fifo", trace(2, fast=0.0, slow=1.0), fast=1, slow=1) == pytest.approx(0.75)


def test_sharing_time_lets_a_short_job_pass_a_long_one() -> None:
    long_then_short = [
        GavelJob(0.1, 1, 100 * HALF_HOUR_OF_STEPS, {"fast": 1.0}),
        GavelJob(0.0, 1, HALF_HOUR_OF_STEPS, {"fast": 1.0}),
    ]
    assert mean_h("las", long_then_short, fast=1) < mean_h("fifo", long_then_short, fast=1) / 1.5


def test_an_unknown_policy_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match="did you mean 'fifo'"):
        simulate(trace(1), rate=1.0, cluster={"fast": 1}, policy="fifi", measure=(0, 0))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"# not a table", "it has no column unit_exp_gap_after"),
        (b"unit_exp_gap_after,num_gpus,total_steps,thr_v100\n0.1,1,x,2\n", "line 2 .*could not convert"),
        (b"unit_exp_gap_after,num_gpus,total_steps,thr_v100\n0.1,0,3,2\n", "line 2 .*num_gpus is 0; it is 1 at least"),
        (b"unit_exp_gap_after,num_gpus,total_steps,thr_v100\n0.1,1,3,-2\n", "line 2 .*finite numbers from 0"),
        (b"unit_exp_gap_after,num_gpus,total_steps,thr_v100\n0.1,1,nan,2\n", "line 2 .*finite numbers from 0"),
        (b"unit_exp_gap_after,num_gpus,total_steps,thr_v100\n0.1,1,3,2,9\n", "line 2 .*as many fields"),
        (b"unit_exp_gap_after,num_gpus,total_steps,thr_v100\n0.1\n", "line 2 .*as many fields"),
        (b"\x1f\x8b\x08\xff", "not a CSV file"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_line_and_what_is_wrong(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(Refused, match=complaint):
        read_trace(path)


def test_jobs_to_be_measured_that_the_trace_has_not_are_refused_with_its_length() -> None:
    with pytest.raises(Refused, match="--measure: 0-1 is beyond the trace, which has 1 jobs"):
        simulate(trace(1), rate=1.0, cluster={"fast": 1}, policy="las", measure=(0, 1))


def test_a_run_is_there_to_be_drawn() -> None:
    history = History()
    simulate(trace(2), rate=1.0, cluster={"fast": 1}, policy="fifo", measure=(0, 1), history=history)
    assert len(history.runs) == 2


@pytest.mark.parametrize(
    ("cluster", "complaint"),
    [({"fats": 1}, "no speed on 'fats'; did you mean 'fast'"), ({"fast": 0}, "needs 1 device of one model")],
)
def test_a_cluster_on_which_the_trace_cannot_run_is_refused_at_once(cluster: dict[str, int], complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        simulate(trace(1), rate=1.0, cluster=cluster, policy="las", measure=(0, 0))


@pytest.mark.parametrize("rate", [0.0, float("nan"), float("inf")])
def test_a_rate_at_which_no_job_comes_is_refused_at_once(rate: float) -> None:
    with pytest.raises(Refused, match="--rate: "):
        simulate(trace(1), rate=rate, cluster={"fast": 1}, policy="las", measure=(0, 0))
