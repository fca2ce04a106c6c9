"""A log is read piecewise; what a job put in its place is neither followed nor waited for."""

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed, Refused
from corral.core.ports.node import LogChunk
from corral.host.node.files.job_logs import MOST_BYTES, JobLogs
from corral.host.runtimes.process.output.log_marks import marks_path

MARK = "1 1000 5.5"


def text(logs: JobLogs, job_id: str, rank: int = 0, offset: int = 0, max_bytes: int = MOST_BYTES) -> bytes:
    return base64.b64decode(logs.read(job_id, rank, offset, max_bytes, MARK).data)


def test_each_member_has_a_log_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "7_1.log").write_text("first")
    (tmp_path / "7_1.2.log").write_text("third")
    logs = JobLogs(tmp_path)
    assert (text(logs, "7_1"), text(logs, "7_1", 2)) == (b"first", b"third")


def test_a_piece_is_no_longer_than_its_bound_and_tells_how_long_the_log_is(tmp_path: Path) -> None:
    (tmp_path / "1.log").write_bytes(b"x" * (MOST_BYTES + 5))
    chunk = JobLogs(tmp_path).read("1", 0, 3, 10 * MOST_BYTES, MARK)
    assert len(base64.b64decode(chunk.data)) == MOST_BYTES
    assert chunk.size_bytes == MOST_BYTES + 5
    assert text(JobLogs(tmp_path), "1", offset=MOST_BYTES + 9) == b""


@pytest.mark.parametrize("of", ["1 1001 5.5", "1 1000 6.5", "2 1000 5.5", None], ids=str)
def test_the_log_of_another_job_is_no_log(tmp_path: Path, of: str | None) -> None:
    """As where a ledger was put in the place of another. What is marked by anything but a link is not known."""
    path = tmp_path / "1.log"
    path.write_bytes(b"the secret of another\n")
    Path(marks_path(str(path))).write_text("0000000050.000 000000000000004\n")
    mark = tmp_path / "1.log.of"
    mark.touch() if of is None else mark.symlink_to(of)
    logs = JobLogs(tmp_path, lambda: 100.0)
    assert logs.read("1", 0, 0, 100, MARK) == LogChunk("", None)
    assert logs.written_since("1", 0, 10.0, MARK) is None


@pytest.mark.parametrize("marked", [True, False])
def test_a_jobs_own_log_is_read_and_so_is_one_of_before_there_were_marks(tmp_path: Path, marked: bool) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(b"mine\n")
    Path(marks_path(str(path))).write_text("0000000050.000 000000000000004\n")
    if marked:
        (tmp_path / "1.log.of").symlink_to(MARK)
    logs = JobLogs(tmp_path, lambda: 100.0)
    assert text(logs, "1") == b"mine\n"
    assert logs.written_since("1", 0, 10.0, MARK) is not None


def test_a_log_that_another_job_begins_while_it_is_read_is_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = JobLogs(tmp_path)
    logs.own("1", 0, MARK)
    opened = os.open

    def begun_meanwhile(path: Path, *how: int) -> int:
        monkeypatch.undo()
        logs.own("1", 0, "1 1001 6.5")
        logs.append("1", 0, b"the secret of another\n")
        return opened(path, *how)

    monkeypatch.setattr(os, "open", begun_meanwhile)
    assert logs.read("1", 0, 0, 100, MARK) == LogChunk("", None)


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
        logs.read("1", 0, 0, 100, MARK)
    logs.note("1", 0, "nobody reads this")


@pytest.mark.parametrize(
    ("job_id", "rank", "offset"), [("../1", 0, 0), ("1/2", 0, 0), ("", 0, 0), ("1", -1, 0), ("1", 0, -1), ("1\n", 0, 0)]
)
def test_what_names_no_log_is_refused(tmp_path: Path, job_id: str, rank: int, offset: int) -> None:
    with pytest.raises(Refused):
        JobLogs(tmp_path).read(job_id, rank, offset, 100, MARK)
