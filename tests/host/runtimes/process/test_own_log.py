"""A log shows what its job has written, and nothing of a job that had the same id in a ledger that is no more."""

import os
from pathlib import Path

import pytest

from corral.host.runtimes.process.records.own_log import open_own_log
from tests.host.runtimes.process.conftest import Machine


def _open(path: Path, job: str, text: bytes = b"") -> None:
    fd = open_own_log(str(path), job)
    try:
        os.lseek(fd, 0, os.SEEK_END)
        os.write(fd, text)
    finally:
        os.close(fd)


def _aside(logs: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(logs.glob(f"{name}.log.until-*[0-9]"))]


def test_attempts_of_one_job_go_on_in_one_log(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    for number in (1, 2):
        state = machine.run("echo", f"attempt {number}", launch_id=f"7.{number}", log_of="7 1000 5.5", **_log(machine))
        assert state.exit is not None
    assert (machine.home / "logs/7.log").read_bytes() == b"attempt 1\nattempt 2\n"
    assert _aside(machine.home / "logs", "7") == []


@pytest.mark.parametrize("marked", [True, False], ids=["marked as another's", "without a mark"])
def test_a_job_does_not_go_on_in_a_log_that_is_not_known_to_be_its_own(
    machine_of_each_kind: Machine, marked: bool
) -> None:
    machine, logs = machine_of_each_kind, machine_of_each_kind.home / "logs"
    (logs / "7.log").write_bytes(b"the secret of another\n")
    (logs / "7.log.times").write_bytes(b"0000001000.000 000000000000022\n")
    if marked:
        (logs / "7.log.of").symlink_to("7 1000 5.5")
    if os.geteuid() == 0:
        os.chown(logs / "7.log", 1000, 1000)
    machine.run("echo", "mine", launch_id="7.1", log_of="7 1001 6.5", **_log(machine))
    assert (logs / "7.log").read_bytes() == b"mine\n"
    assert not (logs / "7.log.times").exists()
    assert _aside(logs, "7") == [b"the secret of another\n"]
    (aside,) = logs.glob("7.log.until-*[0-9]")
    assert aside.stat().st_uid == (1000 if os.geteuid() == 0 else os.geteuid())
    machine.run("echo", "again", launch_id="7.2", log_of="7 1001 6.5", **_log(machine))
    assert (logs / "7.log").read_bytes() == b"mine\nagain\n"


@pytest.mark.parametrize("what", ["directory", "fifo", "link"])
def test_what_is_no_file_is_moved_out_of_the_way_and_not_followed(
    machine_of_each_kind: Machine, tmp_path: Path, what: str
) -> None:
    machine, path = machine_of_each_kind, machine_of_each_kind.home / "logs/7.log"
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    match what:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case _:
            path.symlink_to(victim)
    machine.run("echo", "mine", launch_id="7.1", log_of="7 1001 6.5", **_log(machine))
    assert path.read_bytes() == b"mine\n"
    assert victim.read_bytes() == b"precious"


def test_a_log_without_its_mark_is_nobodys(tmp_path: Path, machine: Machine) -> None:
    """As a crash leaves it between the two steps that make a log."""
    for number in (1, 2):
        (machine.home / "logs/7.log.of").unlink(missing_ok=True)
        machine.run("echo", str(number), launch_id=f"7.{number}", log_of="7 1 1.0", **_log(machine))
    assert (machine.home / "logs/7.log").read_bytes() == b"2\n"
    path = tmp_path / "7.log"
    _open(path, "7 1 1.0", b"before the crash\n")
    (tmp_path / "7.log.of").unlink()
    _open(path, "7 1 1.0", b"after\n")
    assert path.read_bytes() == b"after\n"


def test_a_log_that_was_removed_is_begun_anew(tmp_path: Path, machine: Machine) -> None:
    for number in (1, 2):
        (machine.home / "logs/7.log").unlink(missing_ok=True)
        machine.run("echo", str(number), launch_id=f"7.{number}", log_of="7 1 1.0", **_log(machine))
    assert (machine.home / "logs/7.log").read_bytes() == b"2\n"
    path = tmp_path / "7.log"
    _open(path, "7 1 1.0", b"old\n")
    path.unlink()
    _open(path, "7 1 1.0", b"new\n")
    assert path.read_bytes() == b"new\n"


def _log(machine: Machine) -> dict[str, str]:
    return {"log_path": str(machine.home / "logs/7.log")}
