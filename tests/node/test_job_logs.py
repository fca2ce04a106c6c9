"""A log is read piecewise; what a job put in its place is neither followed nor waited for."""

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.model.errors import BackendFailed, Refused
from corral.node.job_logs import MOST_BYTES, JobLogs


def text(logs: JobLogs, job_id: str, rank: int = 0, offset: int = 0, max_bytes: int = MOST_BYTES) -> bytes:
    return base64.b64decode(logs.read(job_id, rank, offset, max_bytes).data)


def test_each_member_has_a_log_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "7_1.log").write_text("first")
    (tmp_path / "7_1.2.log").write_text("third")
    logs = JobLogs(tmp_path)
    assert (text(logs, "7_1"), text(logs, "7_1", 2)) == (b"first", b"third")


def test_a_piece_is_no_longer_than_its_bound_and_tells_how_long_the_log_is(tmp_path: Path) -> None:
    (tmp_path / "1.log").write_bytes(b"x" * (MOST_BYTES + 5))
    chunk = JobLogs(tmp_path).read("1", 0, 3, 10 * MOST_BYTES)
    assert len(base64.b64decode(chunk.data)) == MOST_BYTES
    assert chunk.size_bytes == MOST_BYTES + 5
    assert text(JobLogs(tmp_path), "1", offset=MOST_BYTES + 9) == b""


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("thing", [fifo, link, directory], ids=lambda thing: thing.__name__)
def test_what_stands_in_the_place_of_a_log_is_no_log(tmp_path: Path, thing: Callable[[Path], None]) -> None:
    thing(tmp_path / "1.log")
    logs = JobLogs(tmp_path)
    with pytest.raises(BackendFailed, match="cannot read the log"):
        logs.read("1", 0, 0, 100)
    logs.note("1", 0, "nobody reads this")


@pytest.mark.parametrize(
    ("job_id", "rank", "offset"), [("../1", 0, 0), ("1/2", 0, 0), ("", 0, 0), ("1", -1, 0), ("1", 0, -1), ("1\n", 0, 0)]
)
def test_what_names_no_log_is_refused(tmp_path: Path, job_id: str, rank: int, offset: int) -> None:
    with pytest.raises(Refused):
        JobLogs(tmp_path).read(job_id, rank, offset, 100)
