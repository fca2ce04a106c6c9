"""Elements of an array that are alike are one row of `corral ps`; each can be listed all the same."""

import getpass
from typing import Any

from corral.cli.direct.rows import rows_of
from corral.cli.tables.job_groups import grouped
from corral.cli.tables.job_rows import group_lines
from tests.e2e.box import Box

NOW = 1_800_000_000.0
PLACES = {f"GPU-{at}": ("", at) for at in range(8)}


def element(index: int, **given: Any) -> dict[str, Any]:
    fields = {"id": f"17_{index}", "array_id": "17", "array_index": index, "name": "sft", "user": "al", "gpus": 1}
    return {**fields, "gpus_milli": 1000, "submitted_at": NOW - 60, "sequence": 17 + index, **given}


def lines(*rows: dict[str, Any], columns: tuple[str, ...] = ("id", "state", "gpus", "time", "where")) -> list[str]:
    groups = grouped(rows_of("JobRow", rows))
    return [" ".join(line.split()) for line in group_lines(groups, PLACES, NOW, columns, header=False)]


def runs(index: int, for_s: float = 60, share_milli: int = 1000) -> dict[str, Any]:
    grant = {"uuid": f"GPU-{index}", "share_milli": share_milli}
    return element(index, phase="RUNNING", started_at=NOW - for_s, devices=[f"GPU-{index}"], grants=[grant])


def test_an_array_is_a_row_for_each_phase_that_its_elements_are_in() -> None:
    waiting = [element(index, wait="Resources" if index == 3 else "Priority") for index in range(49, 2, -1)]
    assert lines(*waiting, runs(0, 60), runs(1, 7200), runs(2)) == [
        "17_[3-49] PENDING 47x1 1m (Resources)",
        "17_[0-2] RUNNING 3x1 2h GPU 0-2",
    ]


def test_elements_that_ended_in_other_ways_or_are_held_have_rows_of_their_own() -> None:
    ended = {"phase": "FAILED", "started_at": NOW - 9, "ended_at": NOW - 5}
    codes = [element(index, exit_code=code, **ended) for index, code in enumerate((1, 2, 1))]
    assert lines(*codes, element(3, held=True), element(4)) == [
        "17_[0,2] FAILED 2x1 4s exit code 1",
        "17_1 FAILED 1 4s exit code 2",
        "17_3 PENDING 1 1m (Held)",
        "17_4 PENDING 1 1m (Submitted)",
    ]


def test_jobs_of_no_array_and_those_of_others_stay_apart() -> None:
    other = {**element(1), "id": "18_1", "array_id": "18"}
    alone = {**element(0), "id": "16", "array_id": None, "array_index": None}
    assert lines(alone, {**alone, "id": "15"}, element(1), other, columns=("id",)) == ["16", "15", "17_1", "18_1"]


def test_what_differs_among_elements_is_said_to() -> None:
    rows = [element(index, command=["train", str(index)], priority=3) for index in range(3)]
    assert lines(*rows, columns=("id", "command", "priority", "name")) == ["17_[0-2] various 3 sft"]


def test_elements_that_share_devices_tell_all_of_them_and_the_share_of_one() -> None:
    assert lines(runs(0, share_milli=500), runs(1, share_milli=500), columns=("id", "where")) == [
        "17_[0,1] GPU 0,1 0.5, 0M"
    ]


def fifty(box: Box, name: str) -> str:
    return box.submit("--hold", "--array", "0-49", "--name", name, "--", "true")


def test_ps_has_one_row_for_an_array_and_one_for_each_element_where_that_is_asked_for(box: Box) -> None:
    array = fifty(box, "one-row")
    table = box.ok("ps", "--name", "one-row").splitlines()
    assert [line.split()[:5] for line in table[1:]] == [
        [f"{array}_[0-49]", "one-row", getpass.getuser(), "PENDING", "50x1"]
    ]
    assert len(box.ok("ps", "--name", "one-row", "--elements").splitlines()) == 51
    assert len(box.ok("ps", "--array", array).splitlines()) == 51
    assert len(box.ok("ps", "--name", "one-row", "--start").splitlines()) == 2
    assert len(box.json("ps", "--name", "one-row", "--json")) == 50
    ids = box.ok("ps", "--name", "one-row", "--no-header", "--columns", "id").split()
    assert ids == [f"{array}_{index}" for index in range(50)]


def test_the_limit_of_a_listing_counts_rows_and_cuts_no_array(box: Box) -> None:
    fifty(box, "limited")
    done = box.run("ps", "--name", "limited", "--limit", "10")
    assert (len(done.stdout.splitlines()), done.stderr) == (2, "")
    done = box.run("ps", "--name", "limited", "--limit", "10", "--elements")
    assert len(done.stdout.splitlines()) == 11
    assert "only 10 jobs are listed" in done.stderr


def test_what_ps_says_of_elements_is_taken_by_the_commands_that_change_them(box: Box) -> None:
    array = fifty(box, "changed")
    box.ok("cancel", f"{array}_[0-2,7]")
    cells = [line.split()[:4:3] for line in box.ok("ps", "--all", "--name", "changed").splitlines()[1:]]
    assert cells == [[f"{array}_[0-2,7]", "CANCELLED"], [f"{array}_[3-6,8-49]", "PENDING"]]
    assert box.ok("cancel", cells[1][0]).count("cancelled") == 46
