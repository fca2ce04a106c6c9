import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from corral.core.model.answers.devices import DeviceRow, HolderRow
from corral.core.model.answers.jobs import JobRow
from corral.core.model.answers.site import ServerInfo
from corral.core.model.jobs.phase import Phase
from corral.tui.board import Board
from corral.tui.board_news import Snapshot
from corral.tui.frame import frame_lines
from corral.tui.log_feed import MOST_CHARACTERS, MOST_LINES, LogLines, shown_line
from corral.tui.ordering import RowChoice, chosen_devices, chosen_jobs
from corral.tui.styled_lines import Line, cell, clipped_to

ANY_TEXT = st.text(max_size=60)
NUMBERS = st.none() | st.integers(0, 10**6)
DEVICES = st.lists(
    st.builds(
        DeviceRow, st.uuids().map(str), st.none() | st.integers(0, 99), ANY_TEXT, ANY_TEXT | st.just("free"), NUMBERS,
        NUMBERS, NUMBERS, NUMBERS, NUMBERS, holders=st.lists(st.builds(HolderRow, ANY_TEXT, ANY_TEXT)).map(tuple),
        node=ANY_TEXT,
    ),
    max_size=12, unique_by=lambda row: row.uuid,
)  # fmt: skip
JOBS = st.lists(
    st.builds(
        JobRow, ANY_TEXT, name=ANY_TEXT, user=ANY_TEXT, phase=st.sampled_from(Phase), queue=ANY_TEXT,
        wait=st.none() | ANY_TEXT, reason=st.none() | ANY_TEXT, devices=st.lists(ANY_TEXT).map(tuple),
    ),
    max_size=12, unique_by=lambda row: row.id,
)  # fmt: skip


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


@settings(max_examples=30)
@given(DEVICES, JOBS, ANY_TEXT, st.integers(40, 200), st.integers(5, 60))
def test_a_frame_fits_its_terminal_whatever_anything_is_called(
    devices: list[DeviceRow], jobs: list[JobRow], node: str, columns: int, rows: int
) -> None:
    board = Board()
    board.apply([Snapshot(ServerInfo(node=node), tuple(devices), tuple(jobs))])
    for line in frame_lines(board, columns, rows, time.time()):
        text = text_of(line)
        assert text.isprintable()
        assert cell_len(text) <= columns


def test_a_frame_of_80_by_24() -> None:
    devices = (
        DeviceRow("GPU-a", 0, "NVIDIA A100", "allocated", 81920, 40960, None, 87, 64, holders=(HolderRow("17", "al"),)),
        DeviceRow("GPU-b", 1, "NVIDIA A100", "unreadable"),
    )
    jobs = (
        JobRow("18", name="eval", user="bob", gpus=4, gpus_milli=4000, wait="Resources", submitted_at=940.0),
        JobRow("17", name="train", user="al", phase=Phase.RUNNING, gpus=1, gpus_milli=1000, started_at=880.0,
               devices=("GPU-a",)),
    )  # fmt: skip
    board = Board()
    board.apply([Snapshot(ServerInfo(node="gpu-07", alerts={"critical": 1}), devices, jobs)])
    board.sparks.add("GPU-a", 1000.0, 50.0)
    assert [text_of(line).rstrip() for line in frame_lines(board, 80, 24, 1000.0)][1:] == [
        "GPU LAST 3 MIN    USE            MEMORY           HEAT STATE      WHO",
        "0               ▅ ███████▉░  87% ███▌░░░ 40/80G   64'C allocated  al/17",
        "1                 ?????????   ?% ??????? ?/?G      ?'C unreadable",
        "ID   NAME            USER       PHASE     GPUS    TIME STARTS WHERE, WHY",
        "17   train           al         RUNNING      1      2m        GPU 0",
        "18   eval            bob        PENDING      4      1m      ? (Resources)",
    ]
    head = text_of(frame_lines(board, 80, 24, 1000.0)[0])
    assert head.startswith("gpu-07  0 of 2 GPUs free  1 run, 1 wait  alerts: 1 critical")
    board.apply([ServerInfo(node="gpu-07", cluster="lab")])
    assert text_of(frame_lines(board, 80, 24, 1000.0)[0]).startswith("lab: gpu-07  0 of 2 GPUs free")


def test_what_has_no_room_is_counted() -> None:
    board = Board()
    devices = tuple(DeviceRow(f"GPU-{n}", n) for n in range(512))
    jobs = tuple(JobRow(str(n), sequence=n) for n in range(10_000))
    board.apply([Snapshot(ServerInfo(), devices, jobs)])
    lines = [text_of(line) for line in frame_lines(board, 80, 24, 0.0)]
    assert len(lines) == 24
    assert lines[-1].startswith("503 more GPUs, 9989 more jobs")


@given(ANY_TEXT, st.integers(0, 30))
def test_a_cell_is_as_wide_as_it_is_to_be(text: str, columns: int) -> None:
    shown, _ = cell(text, columns)
    assert cell_len(shown) == columns
    assert shown.isprintable()


def test_characters_without_width_do_not_pile_up() -> None:
    assert len(clipped_to("e" + "\u0301" * 10_000, 10)) <= 41


def test_what_runs_comes_before_what_waits_and_what_has_ended_last() -> None:
    jobs = [
        JobRow("4", phase=Phase.FAILED, ended_at=5.0),
        JobRow("3", sequence=3, expected_start=20.0),
        JobRow("2", sequence=2),
        JobRow("1", phase=Phase.RUNNING, started_at=1.0),
    ]
    assert [job.id for job in chosen_jobs(jobs, RowChoice(order="queue", ended=True), 9.0)] == ["1", "3", "2", "4"]
    assert [job.id for job in chosen_jobs(jobs, RowChoice(order="queue"), 9.0)] == ["1", "3", "2"]
    assert [job.id for job in chosen_jobs(jobs, RowChoice(("pend", "3"), "queue"), 9.0)] == ["3"]


@pytest.mark.parametrize(("order", "first"), [("index", "a"), ("use", "b"), ("memory", "c"), ("state", "d")])
def test_devices_are_sorted_by_what_was_chosen(order: str, first: str) -> None:
    devices = [
        DeviceRow("a", 0, state="free", utilization_pct=1, memory_total_mib=10, memory_used_mib=1),
        DeviceRow("b", 1, state="free", utilization_pct=9, memory_total_mib=10, memory_used_mib=1),
        DeviceRow("c", 2, state="free", memory_total_mib=10, memory_used_mib=9),
        DeviceRow("d", 3, state="unhealthy"),
    ]
    chosen = chosen_devices(devices, RowChoice(order=order), several=False)
    assert chosen[0].uuid == first
    assert chosen_devices(devices, RowChoice(order=order, backwards=True), several=False) == chosen[::-1]


def test_a_log_in_pieces_is_the_log() -> None:
    log = LogLines()
    for piece in ("one\ntw", "o\nthr", "ee"):
        log.add(piece)
    assert list(log.lines) == ["one", "two", "three"]
    log.add("\n")
    assert list(log.lines) == ["one", "two", "three"]


@given(st.lists(ANY_TEXT, max_size=6))
def test_pieces_make_no_difference_and_nothing_in_a_log_is_obeyed(pieces: list[str]) -> None:
    whole, parts = LogLines(), LogLines()
    whole.add("".join(pieces))
    for piece in pieces:
        parts.add(piece)
    assert list(whole.lines) == list(parts.lines)
    assert all(line.isprintable() for line in whole.lines)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        (" 10%\r 50%\r100%\r", "100%"),
        ("a\tb", "a       b"),
        ("\x1b", r"\x1b"),
        ("[red]markup[/]", "[red]markup[/]"),
        ("\u202eright to left", r"\u202eright to left"),
    ],
)
def test_a_line_is_shown_as_a_terminal_would_leave_it(line: str, shown: str) -> None:
    assert shown_line(line) == shown


def test_of_a_long_progress_bar_the_last_state_is_shown_also_once_it_has_ended() -> None:
    log = LogLines()
    log.add("".join(f"\r{done} {'#' * 80}" for done in range(2_000)))
    assert log.lines[0].startswith("1999 ")
    log.add("\n")
    assert log.lines[0].startswith("1999 ")
    assert "cut" not in log.lines[0]


def test_a_log_has_limits() -> None:
    log = LogLines()
    log.add("x" * (10 * MOST_CHARACTERS))
    log.add("x" * (10 * MOST_CHARACTERS) + "\n")
    assert len(log.lines[0]) < MOST_CHARACTERS + 20
    assert log.lines[0].endswith("… (cut)")
    log.add("line\n" * (MOST_LINES + 10))
    assert (len(log.lines), log.removed) == (MOST_LINES, 11)
