"""Figures for people: each with its unit, groups that are alike side by side, nothing wider than a terminal."""

import pytest

from corral.sim.reports.figures import rows, text

GROUPS = {
    "policy": "corral",
    "recorded": {"mean_wait_s": 3298.6, "ended_at": 1_700_000_000.0, "mean_wait_s_by_user": {"ann": 5.0, "bob": None}},
    "simulated": {"mean_wait_s": 60.0, "ended_at": 1_700_000_060.0, "mean_wait_s_by_user": {"ann": 2.0, "bob": 90.0}},
    "wall_s": 0.25,
}


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("wall_s", 1.5, ("wall", "1.5 s")),
        ("max_wait_s", 211_406.0, ("max wait", "2d 10h")),
        ("decisions_per_s", 13700.0, ("decisions per s", "13,700")),
        ("capacity_milli", 6_212_000, ("capacity", "6212 GPUs")),
        ("allocation_pct", 90.041, ("allocation", "90.04 %")),
        ("peak_mib", 2048.0, ("peak", "2G")),
        ("mean_jct_h", 16.08, ("mean jct", "16.08 hours")),
        ("commit_head", False, ("commit head", "no")),
        ("windows", [1981, 2756], ("windows", "1981, 2756")),
        ("median_error_s", None, ("median error", "-")),
        ("guarantees_broken", [], ("guarantees broken", "none")),
    ],
)
def test_a_figure_is_told_in_its_unit(key: str, value: object, told: tuple[str, str]) -> None:
    assert list(rows({key: value})) == [told]


def test_a_group_has_a_row_for_each_of_its_figures() -> None:
    assert list(rows({"decision_ms": {"p50": 0.2, "p99": 5.0}, "expected_start": {"told": 3, "max_late_s": 70.0}})) == [
        ("decision, p50", "0.2 ms"),
        ("decision, p99", "5 ms"),
        ("expected start, told", "3"),
        ("expected start, max late", "1m 10s"),
    ]


def test_groups_with_the_same_figures_stand_side_by_side() -> None:
    assert text(GROUPS) == (
        "policy                  corral\n"
        "                        recorded              simulated\n"
        "mean wait               54m 58s               1m\n"
        "ended at                2023-11-14 22:13 UTC  2023-11-14 22:14 UTC\n"
        "mean wait by user, ann  5 s                   2 s\n"
        "mean wait by user, bob  -                     1m 30s\n"
        "wall                    0.25 s\n"
    )


def test_nothing_is_wider_than_a_terminal() -> None:
    report = {"bounded_slowdowns": [round(1.37 * n, 2) for n in range(60)]}
    lines = text(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(line.strip() for line in lines).count(",") == 59
