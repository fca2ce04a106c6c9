"""A scratch root is read in full, whatever is wrong with some of it."""

import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.placing.allocation import Grant
from corral.core.sharing.resource_txt import ResourceFile, render, resource_file
from corral.host.sharing.scratch import drop, left, put, remove, scan, set_aside
from tests.hung_mount import hung_mount


def kernel(root: Path, name: str, content: bytes | None) -> Path:
    config = root / name / "config"
    config.mkdir(parents=True)
    if content is not None:
        (config / "resource.txt").write_bytes(content)
    return config / "resource.txt"


GOOD = render(resource_file([Grant("a", 600)])).encode()


def test_good_files_are_read_bad_ones_named_and_missing_ones_passed_over(tmp_path: Path) -> None:
    kernel(tmp_path, "k1", GOOD)
    cut = kernel(tmp_path, "k2", GOOD[: len(GOOD) // 2])
    kernel(tmp_path, "k3-just-ended", None)
    binary = kernel(tmp_path, "k4", b"\xff\xfe\x00")
    (tmp_path / "a-file").write_text("")
    (tmp_path / "empty").mkdir()
    kernel(tmp_path, "k5", GOOD)
    found = scan(tmp_path)
    assert list(found.files) == ["k1", "k5"]
    assert [bad.path for bad in found.bad] == [cut, binary]
    assert str(found.bad[1]) == f"{binary}: is not UTF-8 text"


def test_what_is_no_regular_file_is_named(tmp_path: Path) -> None:
    path = kernel(tmp_path, "k1", None)
    path.mkdir()
    huge = kernel(tmp_path, "k2", b"x" * (1024 * 1024 + 1))
    found = scan(tmp_path)
    assert [(bad.path, bad.reason) for bad in found.bad] == [
        (path, "is not a regular file"),
        (huge, "is larger than 1048576 bytes, which no resource file is"),
    ]


HOSTILE = {
    "nested lists": "[" * 100_000,
    "nested objects": '{"a":' * 100_000,
    "nested within a string's end": '{"a": "' + '"[' * 100_000,
    "a number of many digits": '{"cpu": ' + "9" * 100_000 + "}",
    "an amount of many digits": '{"cuda.shares": "' + "9" * 100_000 + '"}',
    "a huge exponent": '{"cuda.shares": 1e999999999}',
    "no number": '{"cuda.shares": NaN, "cpu": -Infinity}',
    "half a character": '{"cuda.shares": "\\ud800"}',
    "nothing": "",
    "null": "null",
    "zeros": "\0" * 100_000,
}


@pytest.mark.parametrize("slots", HOSTILE.values(), ids=HOSTILE)
def test_no_text_hides_the_other_files_and_each_is_named_in_few_printable_words(tmp_path: Path, slots: str) -> None:
    for name, text in (
        ("1", f"SLOTS={slots}"),
        ("2", f"\x1b]0;owned\x07{slots}=1"),
        ("3", f"CUDA.SHARES_SHARES={slots}:x"),
    ):
        kernel(tmp_path, name, f"SCRATCH_SIZE=0m\nMOUNTS=\n{text}\n".encode())
    kernel(tmp_path, "4", GOOD)
    found = scan(tmp_path)
    assert list(found.files) == ["4"]
    assert len(found.bad) == 3
    assert all(str(bad).isprintable() and len(str(bad)) <= 1000 for bad in found.bad)


def test_a_text_whose_reading_breaks_is_one_more_bad_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> ResourceFile:
        raise MemoryError

    monkeypatch.setattr("corral.host.sharing.scratch.parse", broken)
    path = kernel(tmp_path, "1", GOOD)
    assert [str(bad) for bad in scan(tmp_path).bad] == [f"{path}: could not be read (MemoryError)"]


def test_a_root_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be scanned: No such file"):
        scan(tmp_path / "missing")


def test_a_file_is_put_whole_replaced_and_dropped_and_its_directories_go_when_nothing_else_is_in_them(
    tmp_path: Path,
) -> None:
    for share in (600, 250):
        put(tmp_path, "7", resource_file([Grant("a", share)]))
        assert scan(tmp_path).files["7"].allocated_milli() == {"a": share}
    assert [path.name for path in (tmp_path / "7" / "config").iterdir()] == ["resource.txt"]
    drop(tmp_path, "7")
    drop(tmp_path, "7")
    assert set_aside(tmp_path, "7") is None
    assert set_aside(tmp_path, "7") is None
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_readable_for_all_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        put(tmp_path, "7", resource_file([Grant("a", 600)]))
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "7/config", tmp_path / "7/config/resource.txt")]
    assert modes == [0o755, 0o644]


def test_a_job_that_turns_its_directory_into_a_link_has_nothing_written_or_removed_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "resource.txt").write_text("precious")
    root = tmp_path / "scratch"
    (root / "7").mkdir(parents=True)
    (root / "7" / "config").symlink_to(elsewhere)
    with pytest.raises(BackendFailed, match=r"config/resource\.txt cannot be written"):
        put(root, "7", resource_file([Grant("a", 600)]))
    drop(root, "7")
    assert [(path.name, path.read_text()) for path in elsewhere.iterdir()] == [("resource.txt", "precious")]


def test_a_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root:hash")
    path = kernel(tmp_path / "scratch", "k1", None)
    path.symlink_to(secret)
    (bad,) = scan(tmp_path / "scratch").bad
    assert bad.reason == "is a symbolic link, which is not followed"


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_the_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(kernel(tmp_path, "7", None))
    (bad,) = scan(tmp_path).bad
    assert bad.reason == "is not a regular file"
    put(tmp_path, "7", resource_file([Grant("a", 600)]))
    assert scan(tmp_path).files["7"].allocated_milli() == {"a": 600}


def test_a_directory_that_is_a_link_is_not_gone_through_to_read(tmp_path: Path) -> None:
    kernel(tmp_path / "elsewhere", "7", b"root:hash")
    (tmp_path / "scratch" / "7").mkdir(parents=True)
    (tmp_path / "scratch" / "7" / "config").symlink_to(tmp_path / "elsewhere" / "7" / "config")
    found = scan(tmp_path / "scratch")
    assert (dict(found.files), found.bad) == ({}, ())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("place", ["7", "7/config", "7/config/resource.txt"])
def test_a_file_system_of_the_jobs_own_need_not_answer(tmp_path: Path, place: str) -> None:
    kernel(tmp_path, "7", None)
    if place.endswith(".txt"):
        (tmp_path / place).mkdir()
    with hung_mount(tmp_path / place):
        (bad,) = scan(tmp_path).bad
        assert "another file system is mounted there" in bad.reason
        with pytest.raises(BackendFailed, match="cannot be written"):
            put(tmp_path, "7", resource_file([Grant("a", 600)]))
        with pytest.raises(BackendFailed, match="cannot be removed"):
            drop(tmp_path, "7")
        with pytest.raises(BackendFailed, match="cannot be moved aside"):
            set_aside(tmp_path, "7")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_the_directory_is_its_users_and_the_file_in_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "8").mkdir()  # as a server that was killed on the way leaves it
    for name in ("7", "8"):
        put(tmp_path, name, resource_file([Grant("a", 600)]), owner=(1234, 5678))
        home = (tmp_path / name).stat()
        assert (home.st_uid, home.st_gid) == (1234, 5678)
        assert {path.stat().st_uid for path in (tmp_path / name).rglob("*")} == {0}


def deep(home: Path) -> None:
    """More directories in one another than a recursion would get through."""
    before = os.getcwd()
    try:
        os.chdir(home)
        for _ in range(1_500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(before)


def closed(home: Path) -> None:
    (home / "read-only" / "within").mkdir(parents=True)
    (home / "read-only" / "within").chmod(0o000)
    (home / "read-only").chmod(0o555)


def linked(home: Path) -> None:
    (home / "link").symlink_to(home.parent.parent / "precious")
    (home / "config").symlink_to(home.parent.parent / "precious")


def shut(home: Path) -> None:
    (home / "file").touch()
    home.chmod(0o000)


LEFT: list[Callable[[Path], None]] = [deep, closed, linked, shut]


@pytest.fixture
def user(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Whom the jobs' directories belong to: where root runs these tests, somebody else."""
    if os.geteuid() == 0:
        for above in (tmp_path, *tmp_path.parents[:3]):
            above.chmod(0o755)
        yield pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid
    else:
        yield os.geteuid(), os.getegid()


@pytest.mark.parametrize("leave", LEFT, ids=lambda leave: leave.__name__)
def test_all_that_a_job_left_is_removed_and_nothing_else(
    tmp_path: Path, user: tuple[int, int], leave: Callable[[Path], None]
) -> None:
    root, precious = tmp_path / "scratch", tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    for directory in (root, root / "7"):
        directory.mkdir()
    leave(root / "7")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-hR", f"{user[0]}:{user[1]}", str(root / "7")], check=True)
    aside = set_aside(root, "7")
    assert left(root) == ([], [aside])
    remove(root, aside or "")
    assert list(root.iterdir()) == []
    assert list(precious.iterdir()) == [precious / "file"]


def test_a_link_in_the_place_of_a_jobs_directory_is_removed_and_not_followed(tmp_path: Path) -> None:
    root, precious = tmp_path / "scratch", tmp_path / "precious"
    (precious / "config").mkdir(parents=True)
    (precious / "file").touch()
    root.mkdir()
    (root / "7").symlink_to(precious)
    remove(root, set_aside(root, "7") or "")
    assert list(root.iterdir()) == []
    assert sorted(path.name for path in precious.iterdir()) == ["config", "file"]


def test_the_copy_of_a_script_is_beside_the_resource_file_and_goes_with_it(tmp_path: Path) -> None:
    config = tmp_path / "7" / "config"
    for text in ("#!/bin/sh\necho \N{SNOWMAN}\r\n", "#!/bin/sh\n"):
        put(tmp_path, "7", resource_file([]), script=text)
        assert (config / "script").read_bytes() == text.encode()
        put(tmp_path, "7", resource_file([]))
        assert sorted(file.name for file in config.iterdir()) == ["resource.txt", "script"]
    drop(tmp_path, "7")
    assert list(config.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_directory_whose_user_called_config_otherwise_is_removed_whole(tmp_path: Path, user: tuple[int, int]) -> None:
    for moved in ("x0", "x1"):
        put(tmp_path, "7", resource_file([Grant("a", 600)]), user, "#!/bin/sh\n")
        # As its user, who owns the directory around it.
        subprocess.run(["mv", "config", moved], cwd=tmp_path / "7", user=user[0], group=user[1], check=True)
    (tmp_path / "7" / "x0" / "resource.new").touch()
    assert {path.name for path in (tmp_path / "7").iterdir()} == {"x0", "x1"}
    aside = set_aside(tmp_path, "7")
    assert aside is not None
    remove(tmp_path, aside)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_what_the_user_may_not_remove_stays_and_is_named(tmp_path: Path, user: tuple[int, int]) -> None:
    (tmp_path / "7" / "roots").mkdir(parents=True)
    (tmp_path / "7" / "roots" / "file").touch()
    (tmp_path / "7" / "own").touch()
    os.chown(tmp_path / "7", *user)
    aside = set_aside(tmp_path, "7")
    assert aside is not None
    with pytest.raises(BackendFailed, match=f"{aside} cannot be removed"):
        remove(tmp_path, aside)
    assert [path.name for path in (tmp_path / aside).iterdir()] == ["roots"]
