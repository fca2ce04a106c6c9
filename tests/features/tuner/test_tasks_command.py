"""What `corral tasks show` and `corral tune --follow` say of a task, for a person."""

import io
import sys
from dataclasses import asdict, replace

import pytest

from corral.cli.screen import told, write_painted
from corral.features.tuner.answers import ExperimentRow, TaskDetail, TaskRow
from corral.features.tuner.model.experiment import ExperimentStatus
from corral.features.tuner.model.tuning_spec import ServedModel, TuningSpec
from corral.features.tuner.run_commands.task_commands import experiment_table, outcome, report_lines
from corral.features.tuner.task_log import experiment_lines
from corral.features.tuner.tasks.task_report import front_of, gain_in_words


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_report_on_a_terminal_has_coloured_titles_and_no_colours_of_its_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", _Terminal())
    hostile = "\033[31mred\033[0m"
    row = TaskRow("1", "root", hostile, "m", "vllm", "process", "maximize_throughput", error_message=hostile)
    spec = TuningSpec(hostile, ServedModel(hostile), "vllm")
    best = ExperimentRow(
        "7", "1", 7, {"max-num-seqs": hostile}, ExperimentStatus.SUCCESS, objective_score=-2.0,
        metrics={"total_completed_requests": 1, "total_requests": 1, "generator": hostile},
    )  # fmt: skip
    write_painted(*report_lines(TaskDetail(row, spec), [best], lambda _: f"corral run -- {hostile}"))
    assert isinstance(sys.stdout, _Terminal)
    written = sys.stdout.getvalue()
    assert "\033[1mMEASURED" in written
    assert "\033[31m" not in written
    assert "\\x1b[31mred" in written


def test_what_a_server_wrote_before_it_died_has_lines_of_its_own_and_passes_for_nothing_else() -> None:
    row = TaskRow(
        "1", "root", "t", "m", "vllm", "process", "maximize_throughput", error_message="died: one\nbest: \033[1m"
    )
    detail = TaskDetail(row, TuningSpec("t", ServedModel("m"), "vllm"))
    assert report_lines(detail, [], served)[1:] == ["died: one", "  | best: \\x1b[1m"]


def test_the_errors_of_a_server_are_lines_of_the_terminal_s_width_wherever_they_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    error = f"the server ended: {'it is long ' * 20}\n\tTraceback: {'no memory ' * 30}\nRuntimeError: \x1b[2J"
    row = TaskRow("1", "root", "t", "m", "vllm", "process", "maximize_throughput", error_message=error)
    failed = ExperimentRow("7", "1", 7, {"tp": 1}, ExperimentStatus.FAILED, error_message=error)
    report = report_lines(TaskDetail(row, TuningSpec("t", ServedModel("m"), "vllm")), [], served)
    for lines in (report, told(outcome(failed), 80)):
        assert max(map(len, lines)) <= 80
        assert not [line for line in lines if "\\n" in line or "\\t" in line or "\x1b" in line]
        assert "  | RuntimeError: \\x1b[2J" in lines
        assert [line for line in lines if line.startswith("  |         Traceback: no memory")]


def test_nothing_is_claimed_of_an_experiment_that_was_measured_in_part() -> None:
    probe = ExperimentRow("7", "1", 7, {"tp": 1}, ExperimentStatus.SUCCESS, completed_at=2.0, created_at=1.0)
    assert outcome(probe) == "experiment 7: tp 1: success, measured in part: no score"
    assert experiment_table([probe])[1].endswith("tp 1: measured in part: no score")
    assert [line.text for line in experiment_lines(asdict(probe))][-1] == "experiment 7: measured in part: no score"


def test_of_several_objectives_those_that_no_other_beats_are_shown_and_the_gain_goes_by_the_first() -> None:
    wanted = {"objective": ["maximize_throughput", "minimize_ttft"]}
    row = TaskRow("1", "root", "t", "m", "vllm", "process", "maximize_throughput, minimize_ttft")
    detail = TaskDetail(row, TuningSpec("t", ServedModel("m"), "vllm", optimization=wanted))

    def measured(number: int, throughput: float, ttft: float) -> ExperimentRow:
        metrics = {"mean_total_throughput_per_gpu": throughput, "mean_ttft": ttft}
        counted = {"total_completed_requests": 1, "total_requests": 1}
        return ExperimentRow(
            str(number), "1", number, {"max-num-seqs": number, "tp": 1}, ExperimentStatus.SUCCESS,
            objective_score=-throughput, metrics={**metrics, **counted},
        )  # fmt: skip

    rows = [measured(1, 100.0, 0.1), measured(2, 90.0, 0.2), measured(3, 200.0, 0.5)]
    assert [one.experiment_id for one in front_of(detail, rows)] == [3, 1]
    lines = report_lines(detail, rows, served)
    (at,) = [index for index, line in enumerate(lines) if "no other experiment is better" in line]
    shown = [line.split()[:2] for line in lines[at + 2 : at + 4]]
    assert shown == [["3", "200"], ["1", "100"]]
    starred = [line.split()[0] for line in experiment_table(rows, front_of(detail, rows))[1:]]
    assert starred == ["1*", "2", "3*"]
    default = replace(rows[0], parameters={"tp": 1})
    assert gain_in_words(detail, rows[2], default) == "2.00 times the tokens/s per GPU of the default"
    assert front_of(replace(detail, config=replace(detail.config, optimization={})), rows) == ()


def served(one: ExperimentRow) -> str:
    return f"corral run -- serve-{one.experiment_id}"


def measured_on(model: str | None, number: int, batch: int, latency: float) -> ExperimentRow:
    metrics = {"mean_e2e_latency": latency, "total_completed_requests": 1, "total_requests": 1}
    gpus = None if model is None else {"model": model, "count": 1}
    return ExperimentRow(
        str(number), "1", number, {"max-num-seqs": batch}, ExperimentStatus.SUCCESS,
        objective_score=latency, gpu_info=gpus, metrics=metrics,
    )  # fmt: skip


DETAIL = TaskDetail(
    TaskRow("1", "root", "t", "m", "vllm", "process", "minimize_latency"), TuningSpec("t", ServedModel("m"), "vllm")
)


def test_the_best_says_how_far_repeats_differ_and_what_is_as_good_and_has_their_means() -> None:
    rows = [measured_on("A100", 1, 8, 1.0), measured_on("A100", 2, 16, 1.02), measured_on("A100", 3, 32, 1.5)]
    assert "      measured once, so it is not known how far repeats differ" in report_lines(DETAIL, rows, served)
    rows += [measured_on("A100", 4, 8, 1.04)]
    lines = report_lines(DETAIL, rows, served)
    tie = "scores of one combination differ by up to 3.9%, and experiment 2 is within that: a tie"
    assert f"      mean of 2 measurements; {tie}" in lines
    assert any(line.split() == ["latency", "1,020.0", "ms", "-"] for line in lines)
    alone = report_lines(DETAIL, [*rows, measured_on("A100", 5, 16, 1.4)], served)
    assert any("differ by up to 31.4%" in line and "a tie" in line for line in alone)


def test_the_gain_compares_the_means_of_all_measurements_of_both() -> None:
    tried = [(1, 1.0), (2, 0.8), (2, 0.9), (1, 2.4)]
    rows = [
        replace(measured_on("A100", number, 1, latency), parameters={"tp-size": value})
        for number, (value, latency) in enumerate(tried, 1)
    ]
    lines = [line.split() for line in report_lines(DETAIL, rows, served)]
    assert ["latency", "850.0", "ms", "1,700.0", "ms"] in lines
    assert ["50%", "less", "latency", "than", "the", "default"] in lines


def test_a_default_that_is_the_best_has_the_same_figures_in_both_columns() -> None:
    rows = [
        replace(measured_on("A100", number, 1, latency), parameters={"tp-size": value})
        for number, (value, latency) in enumerate([(1, 1.0), (2, 1.9), (1, 1.2)], 1)
    ]
    lines = [line.split() for line in report_lines(DETAIL, rows, served)]
    assert ["latency", "1,100.0", "ms", "1,100.0", "ms"] in lines


def test_where_nothing_else_was_measured_nothing_is_said_of_others() -> None:
    rows = [measured_on("A100", 1, 8, 1.0), measured_on("A100", 2, 8, 1.1), measured_on("T4", 3, 4, 2.0)]
    told = " ".join(" ".join(report_lines(DETAIL, rows, served)).split())
    assert "differ by up to 9.5%; no other combination was measured on A100" in told
    assert "no other is within that" not in told


def test_no_winner_is_named_across_models_of_gpu_and_figures_are_marked_with_theirs() -> None:
    rows = [measured_on("Tesla T4", 1, 8, 2.0), measured_on("NVIDIA H100 PCIe", 2, 8, 1.0)]
    lines = report_lines(DETAIL, rows, served)
    assert "no winner: experiments ran on several models of GPU, whose figures do not compare" in lines
    bests = [line.split(":")[0] for line in lines if line.startswith("best")]
    assert bests == ["best on NVIDIA H100 PCIe", "best on Tesla T4"]
    assert [line for line in lines if line.startswith("serve it")] == [
        f"serve it: corral run -- serve-{one}" for one in (2, 1)
    ]
    listed = experiment_table(rows)
    assert ("1 (Tesla T4)" in listed[1], "1 (NVIDIA H100 PCIe)" in listed[2]) == (True, True)
    assert "1 (NVIDIA)" in experiment_table(rows[1:])[1]
