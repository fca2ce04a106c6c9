"""How `corral alerts` shows what fires."""

from dataclasses import replace

import pytest

from corral.cli import screen
from corral.client import AlertList, AlertRow, SilenceRow
from corral.features.alerts.run_commands import alert_lines, silence_line

HOT = AlertRow(
    "5f0c27ab", "temperature", "warning", "firing", "device GPU-1", 1e9, 1e9, 91.0,
    "GPU 3: temperature_c is 91 (temperature_c > 85 for 1m). Look at the fans.",
)  # fmt: skip


def test_alerts_are_a_table_that_fits_a_terminal_and_say_who_takes_care(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "room", lambda: 80)
    rows = (
        HOT,
        replace(HOT, acknowledged_by="root"),
        replace(HOT, silenced=True),
        replace(HOT, state="resolved"),
        replace(HOT, sentence="job 1 (\x1b[2J) of x: waiting_s is 2d"),
    )
    lines = list(alert_lines(AlertList(rows, {"temperature": 7})))
    assert max(map(len, lines)) <= 80
    assert [line.partition("temperature  ")[2][:23] for line in lines if line.startswith(HOT.id)] == [
        "GPU 3: temperature_c is",
        "(acknowledged by root) ",
        "(silenced) GPU 3:",
        "resolved: GPU 3:",
        "job 1 (\\x1b[2J) of x:",
    ]
    assert lines[-1] == "and 7 more alerts of rule temperature"


@pytest.mark.parametrize("columns", [80, 120, None])
def test_what_fires_is_told_in_full_however_narrow_the_terminal_is(
    columns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "room", lambda: columns)
    title, *lines = alert_lines(AlertList((replace(HOT, severity="info"),)))
    start = title.index("WHAT")
    assert " ".join(line[start:] for line in lines) == HOT.sentence


def test_that_nothing_fires_is_said() -> None:
    assert list(alert_lines(AlertList())) == ["no alerts"]


def test_a_silence_says_whose_alerts_it_is_about() -> None:
    line = silence_line(SilenceRow("s1", "idle-*", "bob", 1e9, 1e9, user="bob", alerts=2))
    assert line.startswith("silence s1: alerts about jobs of bob that match idle-* cause no messages until ")
    assert line.endswith(", 2 alerts now")


def test_a_silence_that_matches_nothing_now_says_so() -> None:
    line = silence_line(SilenceRow("s1", "tempertaure", "root", 1e9, 1e9))
    assert line.endswith("; no active alert matches")
