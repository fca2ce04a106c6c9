"""Files that a job reads and writes itself, whoever runs it: what is created, emptied, refused."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from tests.host.runtimes.process.conftest import Machine, root_only

SCRIPT = "echo out; echo err >&2"


@pytest.fixture(params=["the server's own user", "another user"])
def user(request: pytest.FixtureRequest) -> dict[str, object]:
    """Programs are executed in two ways, by who is to run them."""
    if request.param == "the server's own user":
        return {}
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    nobody = pwd.getpwnam("nobody")
    return {"uid": nobody.pw_uid, "gid": nobody.pw_gid, "groups": (nobody.pw_gid,)}


@pytest.fixture
def place(open_directory: Path, user: dict[str, object]) -> Path:
    """A directory of that user's."""
    own = open_directory / "own"
    own.mkdir()
    if user:
        os.chown(own, int(str(user["uid"])), -1)
    return own


def code_of(machine: Machine, *argv: str, **spec: object) -> int | None:
    state = machine.run(*argv, **spec)
    assert state.exit is not None
    return state.exit.exit_code


def test_output_and_error_go_where_they_are_to_as_the_jobs_user(
    machine: Machine, place: Path, user: dict[str, object]
) -> None:
    for names, expected in (
        ({"output": "both"}, {"both": "out\nerr\n"}),
        ({"output": "o", "error": "e"}, {"o": "out\n", "e": "err\n"}),
        ({"output": "same", "error": "same"}, {"same": "out\nerr\n"}),
        ({"error": "only"}, {"only": "err\n"}),
    ):
        job = machine.launch("sh", "-c", SCRIPT, workdir=str(place), umask=0o027, **names, **user)
        assert machine.wait(job).exit is not None
        assert {name: (place / name).read_text() for name in expected} == expected
        for name in expected:
            found = (place / name).stat()
            assert (found.st_uid, found.st_mode & 0o777) == (user.get("uid", os.geteuid()), 0o640)
        assert machine.log(job) == (b"out\n" if "only" in expected else b"")


def test_a_file_is_emptied_unless_it_is_to_be_appended_to(
    machine: Machine, place: Path, user: dict[str, object]
) -> None:
    for append, expected in ((False, "out\nerr\n"), (True, "out\nerr\nout\nerr\n"), (False, "out\nerr\n")):
        assert code_of(machine, "sh", "-c", SCRIPT, workdir=str(place), output="o", append=append, **user) == 0
        assert (place / "o").read_text() == expected


def test_nothing_may_be_thrown_away(machine: Machine, place: Path, user: dict[str, object]) -> None:
    assert code_of(machine, "sh", "-c", SCRIPT, workdir=str(place), output="/dev/null", **user) == 0


@pytest.mark.parametrize(
    ("name", "why"),
    [("pipe", "it is not a file"), ("link", "it is a symbolic link"), ("no/such/file", "No such file or directory"),
     (".", "Is a directory"), ("/dev/zero", "it is not a file")],
)  # fmt: skip
def test_what_is_no_file_fails_the_job_with_words_and_is_left_as_it_was(
    machine: Machine, place: Path, user: dict[str, object], name: str, why: str
) -> None:
    os.mkfifo(place / "pipe")
    (place / "pipe").chmod(0o666)
    (place / "target").write_text("precious")
    (place / "link").symlink_to(place / "target")
    for names in ({"output": name}, {"output": "fine", "error": name}):
        job = machine.launch("sh", "-c", SCRIPT, workdir=str(place), **names, **user)
        exit_ = machine.wait(job).exit
        assert exit_ is not None
        assert (exit_.exit_code, exit_.reason) == (126, "exec_failed")
        assert exit_.message.startswith(f"cannot write the output to {name}: {why}")
        assert exit_.message.encode() in machine.log(job)
    assert (place / "target").read_text() == "precious"


def test_a_file_that_only_root_may_write_is_not_the_jobs_to_write(machine: Machine, open_directory: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    kept = open_directory / "kept"
    kept.write_text("root's")
    kept.chmod(0o644)
    nobody = pwd.getpwnam("nobody")
    state = machine.run("true", output=str(kept), uid=nobody.pw_uid, gid=nobody.pw_gid, groups=(nobody.pw_gid,))
    assert state.exit is not None
    assert (state.exit.exit_code, state.exit.message) == (126, f"cannot write the output to {kept}: Permission denied")
    assert kept.read_text() == "root's"


@root_only()
def test_a_job_that_fails_as_the_disk_of_its_output_is_full_says_so(
    machine: Machine, open_directory: Path, user: dict[str, object]
) -> None:
    disk = open_directory / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=777", "tmpfs", disk], stderr=subprocess.DEVNULL
    ).returncode:
        pytest.skip("this process may not mount a file system")
    try:
        fill = ("sh", "-c", "head -c 1M /dev/zero")
        for code, path, argv in (
            (1, "out", fill),
            (0, "out", (*fill[:2], f"{fill[2]}; true")),
            (1, "/dev/null", ("false",)),
        ):
            state = machine.run(*argv, workdir=str(disk), output=path, **user)
            assert state.exit is not None
            said = f"the disk of its output {disk}/out is full" if code and path == "out" else ""
            assert (state.exit.exit_code, state.exit.message) == (code, said)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_file_that_is_gone_keeps_no_job_from_ending(machine: Machine, place: Path, user: dict[str, object]) -> None:
    assert code_of(machine, "sh", "-c", "rm o; exit 4", workdir=str(place), output="o", error="e", **user) == 4


def test_standard_input_is_read_from_a_file_as_the_jobs_user(
    machine: Machine, place: Path, user: dict[str, object]
) -> None:
    (place / "in").write_text("line\n")
    (place / "link").symlink_to("in")
    for name in ("in", "link", str(place / "in")):
        job = machine.launch("cat", workdir=str(place), input=name, **user)
        assert machine.wait(job).exit is not None
        assert machine.log(job) == b"line\n"
    assert code_of(machine, "sh", "-c", '[ -z "$(cat)" ]', workdir=str(place), input="/dev/null", **user) == 0


@pytest.mark.parametrize(
    ("name", "why"),
    [("pipe", "it is not a file"), ("no/such", "No such file or directory"), (".", "it is not a file"),
     ("/dev/zero", "it is not a file")],
)  # fmt: skip
def test_input_from_what_is_no_file_fails_the_job_with_words(
    machine: Machine, place: Path, user: dict[str, object], name: str, why: str
) -> None:
    os.mkfifo(place / "pipe")
    (place / "pipe").chmod(0o666)
    exit_ = machine.run("cat", workdir=str(place), input=name, **user).exit
    assert exit_ is not None
    assert (exit_.exit_code, exit_.message) == (126, f"cannot read the input from {name}: {why}")


def test_a_file_that_only_root_may_read_is_not_the_jobs_to_read(machine: Machine, open_directory: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    kept = open_directory / "kept"
    kept.write_text("root's")
    kept.chmod(0o600)
    nobody = pwd.getpwnam("nobody")
    exit_ = machine.run("cat", input=str(kept), uid=nobody.pw_uid, gid=nobody.pw_gid, groups=(nobody.pw_gid,)).exit
    assert exit_ is not None
    assert exit_.message == f"cannot read the input from {kept}: Permission denied"
