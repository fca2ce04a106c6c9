"""What a person is told while a job waits, and how often."""

import sys
from dataclasses import replace

import pytest

from corral.cli.jobs import waiting
from corral.cli.jobs.waiting import ReasonLine, in_full, in_short
from corral.client import Explanation, WaitPart
from corral.core.model.placing.certainty import Certainty

WAITS = Explanation(
    "7", reason="sft waits: it needs 4 GPUs. It is expected to start in 59m 57s. With --gpus 2 it would start now."
)


def later(countdown: str) -> Explanation:
    return replace(WAITS, reason=WAITS.reason.replace("59m 57s", countdown))


def test_a_countdown_is_no_news(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SPACING_S", 0.0)
    line = ReasonLine()
    for told in (WAITS, later("59m 56s"), later("58m"), later("0.5s")):
        line.show(told)
    assert capsys.readouterr().err.splitlines() == [f"corral: {in_full(WAITS)}"]


def test_another_reason_is_told_but_not_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SPACING_S", 3600.0)
    line, other = ReasonLine(), replace(WAITS, reason="sft waits: it needs 4 GPUs; box has 3 free.")
    line.show(WAITS)
    line.show(other)
    assert "3 free" not in capsys.readouterr().err
    monkeypatch.setattr(waiting, "SPACING_S", 0.0)
    line.show(other)
    assert "3 free" in capsys.readouterr().err


def test_a_terminal_gets_the_whole_reason_in_its_width_and_then_one_short_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    line = ReasonLine()
    told = replace(WAITS, starts_now_with="--gpus 2")
    line.show(told)
    line.show(told)
    line.clear()
    shown = capsys.readouterr().err
    whole, _, rest = shown.partition("\r")
    assert " ".join(whole.split()) == f"corral: {in_full(told)}"
    assert max(map(len, whole.splitlines())) <= 60
    assert rest == "\033[2Kcorral: job 7 waits; with --gpus 2 it would start now\r\033[2K"


def test_the_short_line_has_the_time_on_the_clock() -> None:
    assert in_short(replace(WAITS, expected_start=1e9)).startswith("job 7 waits; starts about 2001-09-")
    assert in_full(replace(WAITS, expected_start=1e9)).startswith("job 7, expected at 2001-09-")
    promised = replace(WAITS, expected_start=1e9, expected_start_is=Certainty.PROMISE)
    assert in_short(promised).startswith("job 7 waits; starts by 2001-09-")
    assert in_full(promised).startswith("job 7, starts at the latest at 2001-09-")


def test_a_job_that_nobody_has_looked_at_yet_has_no_reason_to_tell() -> None:
    assert not replace(WAITS, position=1).considered
    assert replace(WAITS, position=2).considered
    assert replace(WAITS, position=1, waited=(WaitPart("Resources", 0.1),)).considered
