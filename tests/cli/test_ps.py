"""Which columns `corral ps` has and how they are set, and in which words states may be asked for."""

from typing import Any

import pytest

from corral.cli.commands.looking import PsCommand
from corral.cli.direct.rows import rows_of
from corral.cli.tables.job_rows import COLUMNS, DEFAULT_COLUMNS, fill_in_nodes, job_lines, parse_columns
from corral.cli.tables.job_table import LONGEST_PAGE
from corral.cli.tables.states import STATES, phases_of
from corral.client import DeviceRow, GrantRow, JobRow
from corral.core.model.answers.job_details import JobDetail
from corral.core.model.devices.means import Enforcement, Level
from corral.core.model.errors import Refused
from corral.core.model.jobs.job_sort import SORT_KEYS, JobSort, parse_sort, sorted_rows
from corral.core.model.jobs.phase import Phase
from corral.formatting.job_words import job_place

NOW = 1_800_000_000.0


def test_the_help_names_all_columns_and_sort_keys_and_the_longest_page() -> None:
    options = {option.name: option for option in PsCommand.declared}
    assert options["columns"].help.endswith(f": {', '.join(COLUMNS)}.")
    assert options["sort"].help.endswith(f": {', '.join(SORT_KEYS)}.")
    assert options["limit"].most == LONGEST_PAGE - 1


def job(**given: Any) -> JobRow:
    return JobRow(**{"id": "17", "name": "sft", "user": "alice", "sequence": 17, "gpus": 1, "gpus_milli": 500, **given})


HAD = (GrantRow("GPU-3", 500, 40_960),)
BEHIND = Enforcement(Level.GUARDED, Level.ADVISORY)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        (job(phase="SUCCEEDED", devices=("GPU-3",), grants=HAD), "GPU 3 0.5, 40G"),
        (
            job(phase="SUCCEEDED", devices=("GPU-3",), grants=HAD, enforcement=BEHIND),
            "GPU 3 0.5, 40G guarded, compute advisory",
        ),
        (job(phase="FAILED", exit_code=3, devices=("GPU-3",), grants=HAD), "exit code 3; had 0.5 of GPU 3 with 40G"),
        (job(phase="FAILED", exit_code=3, devices=("GPU-3",), grants=(GrantRow("GPU-3"),)), "exit code 3"),
    ],
)
def test_an_ended_job_says_which_part_of_a_gpu_it_had(row: JobRow, place: str) -> None:
    assert job_place(row, {"GPU-3": ("", 3)}) == place


def test_every_column_has_a_cell_for_every_job() -> None:
    bare, full = (
        JobRow(id="1"),
        job(phase="RUNNING", started_at=NOW, nodes=("a", "b"), grants=HAD, command=("a b", "c")),
    )
    for row in (bare, full, JobDetail(id="2", phase=Phase.PENDING, wait="Priority", expected_start=NOW)):
        titles, cells = job_lines([row], {}, NOW, tuple(COLUMNS))
        assert len(titles.split("  ")) > 1
        assert cells.isprintable()


def test_the_node_of_an_ended_job_is_that_of_its_devices() -> None:
    ended = {"id": "17", "devices": ["GPU-3", "gone"]}
    rows = rows_of("JobRow", [ended, {"id": "18", "devices": ["GPU-3"], "nodes": ["b"]}, {"id": "19"}])
    fill_in_nodes(rows, [DeviceRow("GPU-3", 3, node="a")])
    assert [row.nodes for row in rows] == [["a"], ["b"], []]


def test_columns_are_those_that_were_asked_for_in_their_order() -> None:
    assert job_lines([job(attempts=2)], {}, NOW, parse_columns("attempts, ID")) == ["ATTEMPTS  ID", "       2  17"]
    assert job_lines([job(attempts=2)], {}, NOW, ("attempts", "id"), header=False) == ["       2  17"]
    with pytest.raises(Refused, match="'stat' is not a column; did you mean 'state'"):
        parse_columns("id,stat")


def test_nothing_is_cut_where_the_output_is_no_terminal() -> None:
    name, reason = "n" * 150, "r" * 150
    (_, cells) = job_lines([job(name=name, phase="FAILED", reason=reason)], {}, NOW)
    assert name in cells
    assert reason in cells


@pytest.mark.parametrize("columns", [DEFAULT_COLUMNS, tuple(COLUMNS), ("name", "name", "user")])
def test_a_terminal_is_never_too_narrow(monkeypatch: pytest.MonkeyPatch, columns: tuple[str, ...]) -> None:
    monkeypatch.setattr("corral.cli.screen.room", lambda: 80)
    long = job(name="n" * 150, user="u" * 150, phase="FAILED", reason="r" * 150, queue="q" * 90, nodes=("x" * 90,))
    assert max(map(len, job_lines([long], {}, NOW, columns))) <= 80


@pytest.mark.parametrize(
    ("text", "phases"),
    [
        ("Waiting", (Phase.PENDING,)),
        ("pending,RUNNING", (Phase.PENDING, Phase.RUNNING)),
        ("timed-out,Timeout", (Phase.TIMED_OUT,)),
        ("canceled", (Phase.CANCELLED,)),
        ("completed", (Phase.SUCCEEDED,)),
        ("ended", (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.TIMED_OUT, Phase.LOST)),
    ],
)
def test_states_are_asked_for_in_the_words_that_users_have(text: str, phases: tuple[Phase, ...]) -> None:
    assert phases_of([text]) == phases


def test_a_word_that_is_no_state_gets_the_nearest() -> None:
    with pytest.raises(Refused, match="'faild' is not a state; did you mean 'failed'"):
        phases_of(["running,faild"])
    with pytest.raises(Refused, match="known: active, cancelled, ended, failed"):
        phases_of(["zzz"])
    assert set(map(str.lower, Phase)) <= set(STATES)


def test_rows_are_sorted_with_those_that_have_no_value_last() -> None:
    rows = [job(id=str(n), sequence=n, started_at=at) for n, at in ((1, 5.0), (2, None), (3, 9.0), (4, 5.0))]
    assert [row.id for row in sorted_rows(rows, parse_sort("started"), NOW)] == ["4", "1", "3", "2"]
    assert [row.id for row in sorted_rows(rows, parse_sort("-Started"), NOW)] == ["3", "4", "1", "2"]
    for key in SORT_KEYS:
        assert len(sorted_rows([JobRow(id="9"), *rows], JobSort(key), NOW)) == 5
    with pytest.raises(Refused, match="did you mean 'ended'"):
        parse_sort("-endet")
