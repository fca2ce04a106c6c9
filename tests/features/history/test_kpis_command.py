"""Key figures as a person reads them."""

from dataclasses import fields
from typing import Any

import pytest

from corral.client import Kpi, KpiRow, Kpis
from corral.features.history.answers import KpiSet
from corral.features.history.run_commands import TITLES, group_lines, pool_lines

UNITS = {
    **dict.fromkeys(("gpu_utilization", "memory_utilization", "compute_efficiency", "error_rates"), "%"),
    **dict.fromkeys(("job_completion_time", "queue_wait_time", "resource_allocation_time"), "s"),
    "job_throughput": "jobs/h",
    "system_response_time": "ms",
    "temperature": "C",
    "power_consumption": "W",
    "hardware_failures": "failures",
}


def figures(value: float | None) -> dict[str, Any]:
    return {field.name: Kpi(value, UNITS[field.name], "a sentence that says what it is") for field in fields(KpiSet)}


def test_each_figure_of_the_pool_has_its_value_its_unit_and_what_it_is() -> None:
    period, titles, *lines = pool_lines(Kpis(**figures(5400.26), from_=0, to=60))
    assert period.startswith("from ")
    assert titles.split() == ["KPI", "VALUE", "IS"]
    by_name = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    assert by_name["gpu_utilization"] == "5400.3 % a sentence that says what it is"
    assert by_name["queue_wait_time"].startswith("1h 30m a sentence")
    assert by_name["hardware_failures"].startswith("5400 a sentence")
    assert len(by_name) == 12


def test_what_was_not_measured_is_no_zero() -> None:
    assert {line.split()[1] for line in list(pool_lines(Kpis(**figures(None), from_=0, to=60)))[2:]} == {"-"}


@pytest.mark.parametrize("value", [None, 0.0, 100.0, 86_399.0])
def test_a_table_by_group_fits_eighty_columns_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, value: float | None
) -> None:
    monkeypatch.setattr("corral.cli.screen.room", lambda: 80)
    values = figures(value) | {"power_consumption": Kpi(700.0, "W", ""), "gpu_utilization": Kpi(100.0, "%", "")}
    row = KpiRow(name="a-user-with-a-long-name\x1b[2J", **values)
    lines = list(group_lines(Kpis(**values, from_=0, to=60, by="project", rows=(row,), left_out=3)))
    assert max(map(len, lines)) <= 80
    assert len(lines[0].split()) == len(lines[1].split()) == 1 + len(TITLES)
    assert "\x1b" not in "".join(lines)
    assert lines[2].split()[0] == "pool"
    assert lines[-1].startswith("3 more")


def test_what_a_figure_is_goes_on_in_the_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.cli.screen.room", lambda: 80)
    sentence = " ".join(["words"] * 30)
    values = figures(1.0) | {"gpu_utilization": Kpi(12.0, "%", sentence)}
    lines = list(pool_lines(Kpis(**values, from_=0, to=60)))
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).count("words") == 30
