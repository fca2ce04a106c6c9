"""What its owner changes while it is read is read as far as it goes, and never waited for."""

import os
import socket
from pathlib import Path

import pytest

from corral import files
from corral.files import chunks, made_once, names_in, read_own_end, read_start, read_whole, write_anew, write_whole


def test_a_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_start(path, 4) == b"0123"
    assert read_start(path, 100) == b"0123456789"
    assert list(chunks(path, 7, 3)) == [b"012", b"345", b"6"]


def test_a_file_that_is_cut_or_grows_under_its_reader_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3000))
    reading = chunks(path, 1 << 20, 1000)
    assert len(next(reading)) == 1000
    os.truncate(path, 500)
    assert list(reading) == []
    reading = chunks(path, 2000, 1000)
    assert len(next(reading)) == 500
    os.truncate(path, 1 << 30)
    assert sum(map(len, reading)) == 1500


@pytest.mark.timeout(60)
def test_what_is_no_file_is_not_read_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in ("fifo", "directory", "link", "socket", "/dev/zero", "/dev/tty"):
            with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
                read_start(tmp_path / name, 10)


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_start(tmp_path / "link", 10) == b"text"


def test_names_are_sorted_and_an_endless_directory_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.json", "a.json", "c.txt"):
        (tmp_path / name).touch()
    assert names_in(tmp_path, "*.json") == ["a.json", "b.json"]
    monkeypatch.setattr(files, "MOST_NAMES", 2)
    assert names_in(tmp_path) == []
    assert names_in(tmp_path / "nowhere") == []


def test_the_end_of_an_own_file_is_read_and_nothing_else_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"first\nlast\n")
    assert read_own_end(tmp_path / "log", 5) == b"last\n"
    assert read_own_end(tmp_path / "log", 500) == b"first\nlast\n"
    (tmp_path / "link").symlink_to("log")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(OSError, match="not a regular file"):
            read_own_end(tmp_path / name, 5)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_anothers_file_is_not_taken_for_an_own_one(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"text")
    os.chown(tmp_path / "log", 65534, 65534)
    with pytest.raises(PermissionError, match="another user's"):
        read_own_end(tmp_path / "log", 5)


def test_a_file_that_is_wanted_whole_is_refused_where_it_is_larger(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123")
    assert read_whole(path, 4) == b"0123"
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_whole(path, 3)


def test_a_link_is_not_followed_where_that_is_not_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="not a regular file"):
        read_start(tmp_path / "link", 4, follow=False)


def test_what_is_in_the_place_of_a_file_that_is_written_gives_way(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    os.mkfifo(tmp_path / "fifo")
    os.symlink(other, tmp_path / "symlink")
    os.link(other, tmp_path / "link")
    for name in ("fifo", "symlink", "link"):
        write_anew(tmp_path / name, "mine")
        assert (tmp_path / name).read_text() == "mine"
    assert other.read_text() == "kept"


def test_a_file_that_is_written_in_one_step_stays_as_it_was_if_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")
    (tmp_path / "file.new").mkdir()
    with pytest.raises(OSError, match=r"file\.new"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    (tmp_path / "file.new").rmdir()
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_made_once_has_the_text_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tag"

    def another_makes_it(looked_for: Path) -> bool:
        write_anew(path, "first")
        return False

    with monkeypatch.context() as late:
        late.setattr(Path, "exists", another_makes_it)
        assert made_once(path, "second") == "first"
    assert made_once(path, "third") == "first"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        made_once(tmp_path / "none" / "tag", "x")
