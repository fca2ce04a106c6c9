"""Reports as pages: whole in one file, and safe to show."""

import xml.etree.ElementTree as ET

import pytest

from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.sim.benchmarks.openb import Point
from corral.sim.reports.history import History, Run
from corral.sim.reports.page import Bar, Series, gantt, lines, page
from corral.sim.reports.report import packing_page, queue_page


def svg_of(plot: str) -> ET.Element:
    return ET.fromstring(plot[plot.index("<svg") :])


def test_a_page_fetches_nothing_and_runs_nothing() -> None:
    text = page("t", {"a": 1}, [lines("l", [Series("s", [0, 1], [2, 3])], x_label="x")])
    assert not any(word in text for word in ("http", "<script", "src=", "url("))


def test_what_users_have_written_is_escaped() -> None:
    text = page("<b>", {"user": "<i>"}, [gantt("g", [Bar("<u>", 0, 1, "<img>")], x_label="x")])
    assert not any(tag in text for tag in ("<b>", "<i>", "<u>", "<img>"))


def test_a_line_has_a_point_for_each_value_and_a_step_one_more() -> None:
    series = [Series("s", [0, 1, 2], [5, 0, 5])]
    plain = svg_of(lines("l", series, x_label="x")).find("polyline")
    steps = svg_of(lines("l", series, x_label="x", steps=True)).find("polyline")
    assert plain is not None
    assert steps is not None
    assert [len((one.get("points") or "").split()) for one in (plain, steps)] == [3, 5]


def test_long_lines_are_thinned_out() -> None:
    drawn = svg_of(lines("l", [Series("s", range(100_000), range(100_000))], x_label="x")).find("polyline")
    assert drawn is not None
    assert len((drawn.get("points") or "").split()) < 2_000


def test_bars_lie_in_the_row_of_their_device() -> None:
    bars = [Bar("a", 0, 5, "job 1"), Bar("b", 0, 10, "job 2")]
    boxes = svg_of(gantt("g", bars, x_label="x")).findall("rect")
    assert boxes[0].get("y") != boxes[1].get("y")
    assert float(boxes[1].get("width") or 0) == 2 * float(boxes[0].get("width") or 0)


def test_nothing_to_draw_draws_nothing() -> None:
    assert lines("l", [], x_label="x") == gantt("g", [], x_label="x") == ""
    assert "<svg" not in queue_page("t", {}, {"corral": History()})


def test_a_packing_page_draws_allocation_and_fragmentation() -> None:
    text = packing_page({"fgd": {"policy": "fgd"}}, {"fgd": [Point(0, 0.0, 0.0), Point(1, 1.0, 0.2)]})
    assert text.count("<polyline") == 2


def ran(job_id: str, start: float, end: float, *uuids: str) -> Run:
    grants = tuple(Grant(uuid, 500) for uuid in uuids)
    held = Allocation(job_id, job_id, "ann", Placement((Member("box", grants, cpu_milli=4000),)), start)
    return Run(held, start, end)


def chart_of(runs: list[Run]) -> ET.Element:
    chart = queue_page("t", {}, {"corral": History(runs=runs)}).partition("Timeline of jobs")[2]
    return svg_of(chart.partition("</svg>")[0] + "</svg>")


def test_runs_that_share_a_device_lie_in_lanes_below_its_name() -> None:
    runs = [
        ran("1", 0, 600, "GPU-a"),
        ran("2", 60, 300, "GPU-a"),
        ran("3", 300, 600, "GPU-a"),
        ran("4", 0, 60, "GPU-b"),
    ]
    chart = chart_of(runs)
    boxes = chart.findall("rect")
    assert [float(box.get("y") or 0) for box in boxes] == [16, 34, 34, 52]
    assert [text.text for text in chart.findall("text")][-2:] == ["a", "b"]


def test_work_without_gpus_counts_its_processors() -> None:
    history = History()
    history.note(0.0, [ran("1", 0, 60).allocation, ran("2", 0, 60).allocation], 0)
    assert history.in_use == [8.0]


@pytest.mark.parametrize(
    ("seconds", "unit", "ticks"),
    [
        (50, "seconds", [0, 10, 20, 30, 40, 50]),
        (7200, "hours", [0, 0.5, 1, 1.5, 2]),
        (600, "minutes", [0, 2, 4, 6, 8, 10]),
    ],
)
def test_a_time_axis_counts_in_round_numbers_of_a_fitting_unit(seconds: float, unit: str, ticks: list[float]) -> None:
    texts = [each.text for each in chart_of([ran("1", 0, seconds, "GPU-a")]).findall("text")]
    assert texts == [*(f"{tick:g}" for tick in ticks), unit, "a"]
