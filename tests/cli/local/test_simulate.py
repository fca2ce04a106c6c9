"""`corral simulate`: several policies in one run and one page, and a page for each kind of run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from tests.cli.in_process import ran

SWF = "".join(
    f"{number} {10 * number} -1 {run_s} {procs} -1 -1 {procs} {run_s} -1 1 1 1 1 1 1 -1 -1\n"
    for number, (run_s, procs) in enumerate([(500, 4), (400, 3), (30, 1), (20, 2), (600, 4), (10, 1)], start=1)
)
GAVEL = "unit_exp_gap_after,num_gpus,total_steps,tput_v100,tput_k80\n" + "0.1,1,40000,10,2\n" * 6


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.swf"
    path.write_text(SWF)
    return path


def simulated(*arguments: str) -> str:
    done = ran("simulate", *arguments)
    assert (done.code, done.err) == (0, "")
    return done.out


def test_each_order_has_its_report_and_its_lines_in_one_page(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ("swf", "--trace", str(trace), "--procs", "4", "--jobs", "6", "--html", str(page), "--json", "-")
    report = json.loads(simulated(*arguments, "--order", "fcfs,sjf"))
    assert list(report) == ["fcfs", "sjf"]
    assert [one["order"] for one in report.values()] == ["fcfs", "sjf"]
    text = page.read_text()
    assert "Timeline of jobs, fcfs" in text
    assert "Timeline of jobs, sjf" in text


def test_figures_of_several_policies_stand_side_by_side(trace: Path) -> None:
    told = simulated("swf", "--trace", str(trace), "--procs", "4", "--jobs", "6", "--order", "fcfs,sjf")
    (row,) = [line.split() for line in told.splitlines() if line.startswith("mean bounded slowdown")]
    assert len(row) == 5
    assert told.splitlines()[0].split() == ["fcfs", "sjf"]


def test_one_policy_has_the_report_that_it_always_had(trace: Path) -> None:
    told = simulated("swf", "--trace", str(trace), "--procs", "4", "--jobs", "6", "--order", "sjf", "--json", "-")
    assert json.loads(told)["order"] == "sjf"


def test_a_list_with_an_empty_name_is_refused_with_one_that_would_do(trace: Path) -> None:
    with pytest.raises(
        Refused, match="--order: 'fcfs,' has an empty name in it; write one, or several as in fcfs,corral"
    ):
        ran("simulate", "swf", "--trace", str(trace), "--order", "fcfs,")


def test_faults_have_a_page(tmp_path: Path) -> None:
    page = tmp_path / "faults.html"
    simulated("faults", "--jobs", "5", "--gpus", "2", "--html", str(page))
    text = page.read_text()
    assert "Timeline of jobs" in text
    assert ">node2:0</text>" in text


def test_what_the_servers_of_a_simulation_warn_of_is_counted_and_what_is_not_broken_is_said() -> None:
    corral = [sys.executable, "-c", "from corral.cli import main; main()"]
    command = [*corral, "simulate", "faults", "--nodes", "2", "--gpus", "2", "--jobs", "5"]
    done = subprocess.run([*command, "--seed", "3"], capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stderr) == (0, "")
    told = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    assert int(told["warnings"]) > 0
    assert told["guarantees broken"] == "none"


def test_scale_has_a_page_of_how_long_decisions_take(tmp_path: Path) -> None:
    page = tmp_path / "scale.html"
    simulated("scale", "--nodes", "20", "--jobs", "400", "--html", str(page))
    assert page.read_text().count("<polyline") == 2
