"""GPU-hours as a person reads them."""

from dataclasses import replace

from corral.cli.usage import usage_lines
from corral.client import Usage, UsageRow

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
