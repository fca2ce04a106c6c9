"""GPU-hours as a person reads them."""

import csv
import io
from dataclasses import replace

import pytest

from corral.client import Usage, UsageRow
from corral.features.accounting.usage_table import months_lines, usage_lines, write_csv

ALICE = UsageRow(
    "alice",
    12.0,
    compute_enforced_hours=8.0,
    compute_advisory_hours=3.0,
    memory_enforced_hours=8.0,
    memory_guarded_hours=3.0,
    unrecorded_hours=1.0,
    slice_hours={"1g.10gb": 2.5},
)
BOB = UsageRow("bob", 3.0, compute_advisory_hours=3.0, memory_guarded_hours=3.0)
TOTAL = UsageRow("total", 15.0, compute_enforced_hours=8.0, compute_advisory_hours=6.0, unrecorded_hours=1.0)


def test_each_row_says_what_stood_behind_its_hours() -> None:
    title, alice, bob, total, unrecorded, slices = usage_lines(Usage("user", 0.0, 1.0, (ALICE, BOB), TOTAL))
    assert title.split() == ["USER", "GPU-HOURS", "COMPUTE", "MEMORY"]
    assert alice.split(maxsplit=1)[1] == "12.00  67% enforced, 25% advisory  67% enforced, 25% guarded"
    assert bob.split() == ["bob", "3.00", "100%", "advisory", "100%", "guarded"]
    assert total.split()[:2] == ["total", "15.00"]
    assert unrecorded == "alice: for 1.00 h it is not recorded how shares were enforced"
    assert slices.startswith("alice: 2.50 h of 1g.10gb in MIG slices")


def test_hours_that_were_for_nothing_have_a_column_where_there_are_any() -> None:
    robbed = replace(BOB, lost_hours=1.25)
    title, alice, bob, *_ = usage_lines(Usage("user", 0.0, 1.0, (ALICE, robbed), replace(TOTAL, lost_hours=1.25)))
    assert title.split() == ["USER", "GPU-HOURS", "LOST", "COMPUTE", "MEMORY"]
    assert (alice.split()[2], bob.split()[2]) == ("0.00", "1.25")


def test_lines_fit_eighty_columns() -> None:
    for row in (BOB, replace(BOB, lost_hours=1.25)):
        assert max(map(len, usage_lines(Usage("user", 0.0, 1.0, (ALICE, row), TOTAL)))) <= 80


def test_one_alone_needs_no_total_and_nobody_is_said_to_be() -> None:
    assert len(usage_lines(Usage("queue", 0.0, 1.0, (BOB,), BOB))) == 2
    (nobody,) = usage_lines(Usage("queue", 0.0, 1.0))
    assert nobody.startswith("no GPU was used since ")


def test_months_stand_in_a_column_of_their_own() -> None:
    told = [("2026-09", Usage("user", 0.0, 1.0, (BOB,), BOB)), ("2026-10", Usage("user", 1.0, 2.0, (ALICE,), TOTAL))]
    title, september, october = months_lines(told)[:3]
    assert title.split() == ["MONTH", "USER", "GPU-HOURS", "COMPUTE", "MEMORY"]
    assert september.split()[:3] == ["2026-09", "bob", "3.00"]
    assert october.split()[:3] == ["2026-10", "alice", "12.00"]


def test_csv_has_every_figure_of_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    write_csv([("2026-10", Usage("user", 0.0, 86400.0, (ALICE, BOB), TOTAL))])
    alice, bob = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (alice["month"], alice["user"], alice["gpu_hours"], alice["slice_hours"]) == (
        "2026-10",
        "alice",
        "12",
        "1g.10gb=2.5",
    )
    assert (bob["user"], bob["compute_advisory_hours"], bob["lost_hours"]) == ("bob", "3", "0")


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)"])
def test_a_name_is_no_formula_to_a_spreadsheet(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_csv([(None, Usage("project", 0.0, 1.0, (replace(BOB, name=name),), BOB))])
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["project"] == f"'{name}"
