"""A report as a person, a spreadsheet and a browser read it."""

import csv
import io
from dataclasses import replace

import pytest

from corral.client import Report, ReportRow
from corral.features.accounting.report_page import page_of
from corral.features.accounting.report_table import report_lines, write_csv

ALICE = ReportRow({"user": "alice"}, 12.0, 6.0, 3.0, 3.0, 1.5, 0.0, 4.25, 24.5)
BOB = ReportRow({"user": "bob"}, 3.0, 0.0, 3.0, 0.0, 0.0, 3.0, None, None, 3.0)
TOTAL = ReportRow({}, 15.0, 6.0, 6.0, 3.0, 1.5, 3.0, 4.25, 24.5, 3.0)
FOUND = Report(("user",), 0.0, 86_400.0, (ALICE, BOB), TOTAL, "EUR")
HOSTILE = "</title><script>alert('x')</script><img src=x onerror=y>\x1b[2J\u202e"


def test_each_row_says_what_was_made_of_its_hours() -> None:
    title, alice, bob, total, unpriced = report_lines(FOUND)
    assert title.split() == [
        *("USER", "GPU-HOURS", "USED", "IDLE", "UNMETERED", "WASTED", "RESERVED", "KWH", "COST", "EUR"),
    ]
    assert alice.split() == ["alice", "12.00", "50%", "25%", "25%", "12%", "0%", "4.25", "24.50"]
    assert bob.split() == ["bob", "3.00", "0%", "100%", "0%", "0%", "100%", "-", "-"]
    assert total.split()[:3] == ["total", "15.00", "40%"]
    assert unpriced == "for 3.00 GPU-hours there is no price"


def test_columns_that_say_nothing_are_left_out() -> None:
    plain = replace(ALICE, wasted_hours=0.0, cost=None)
    title, row = report_lines(Report(("user",), 0.0, 1.0, (plain,), replace(plain, names={})))
    assert title.split() == ["USER", "GPU-HOURS", "USED", "IDLE", "UNMETERED", "KWH"]
    assert len(row.split()) == 6
    (nothing,) = report_lines(Report(("user",), 0.0, 1.0))
    assert nothing.startswith("no GPU was granted since")


def test_lines_fit_eighty_columns_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.cli.screen.room", lambda: 80)
    long = replace(ALICE, names={"user": "a" * 40, "project": "p" * 40})
    lines = report_lines(replace(FOUND, by=("user", "project"), rows=(long,), total=TOTAL))
    assert max(map(len, lines)) <= 80


def test_names_are_cut_before_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.cli.screen.room", lambda: 80)
    keys = ("user", "project", "queue", "model")
    row = replace(ALICE, names={key: key * 4 for key in keys}, cost=None)
    _, line = report_lines(Report(keys, 0.0, 1.0, (row,), replace(row, names={})))
    assert len(line) <= 80
    assert line.split()[-6:] == ["12.00", "50%", "25%", "25%", "12%", "4.25"]


def test_hours_and_weekdays_are_a_grid() -> None:
    rows = (
        ReportRow({"hour": "09:00", "weekday": "Mon"}, 4.0, 1.0, 3.0),
        ReportRow({"hour": "09:00", "weekday": "Tue"}, 120.0, 120.0),
        ReportRow({"hour": "10:00", "weekday": "Tue"}, 2.0, 1.0, 1.0),
    )
    title, nine, ten, below = report_lines(
        Report(("hour", "weekday"), 0.0, 1.0, rows, replace(TOTAL, unpriced_hours=0))
    )
    assert title.split() == ["HOUR", "MON", "TUE"]
    assert nine.split() == ["09:00", "4.0", "25%", "120", "100%"]
    assert ten.split() == ["10:00", "-", "2.0", "50%"]
    assert "15.00" in below


def test_what_is_left_out_has_a_row() -> None:
    lines = list(report_lines(replace(FOUND, others=BOB, left_out=7)))
    assert lines[3].split()[:3] == ["7", "others", "3.00"]


def test_csv_adds_up_to_the_millisecond_and_what_is_not_known_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    thirds = [replace(ALICE, names={"user": name}, gpu_hours=(1 + 1 / 3600_000) / 3) for name in "abc"]
    write_csv(replace(FOUND, rows=(*thirds, BOB)))
    *some, bob = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert sum(float(row["gpu_hours"]) for row in some) * 3600_000 == pytest.approx(3600_001, abs=0.05)
    assert (bob["energy_kwh"], bob["cost"], bob["unpriced_hours"], bob["currency"]) == ("", "", "3", "EUR")


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\uff1d1", " =1"])
def test_a_name_is_no_formula_to_a_spreadsheet(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(replace(FOUND, rows=(replace(BOB, names={"job": "1", "name": name}),)))
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["name"].startswith("'")


def test_a_page_loads_and_runs_nothing_whatever_names_there_are() -> None:
    rows = (replace(ALICE, names={"project": HOSTILE}), BOB)
    page = page_of(replace(FOUND, by=("project",), rows=(rows[0],), currency=HOSTILE[:12]))
    assert "<script" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert page.count("&lt;script&gt;") == 2
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "12.00" in page


def test_a_page_of_hours_and_weekdays_is_a_grid() -> None:
    rows = (ReportRow({"hour": "09:00", "weekday": "Mon"}, 4.0, 1.0, 3.0),)
    page = page_of(Report(("hour", "weekday"), 0.0, 1.0, rows, TOTAL))
    assert "4.0 · 25%" in page
    assert "<td>–</td>" in page
