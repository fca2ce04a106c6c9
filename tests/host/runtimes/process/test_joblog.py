import os
import select
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.host.node.files.job_logs import append_note, open_own_log
from corral.host.runtimes.process.records.launch_spec import LaunchError
from tests.host.runtimes.process.conftest import Machine, root_only
from tests.host.runtimes.process.supervisor_parts import TAIL_BYTES, NativeLog


def _print(fd: int, output: bytes) -> None:
    with open(fd, "wb") as pipe:
        pipe.write(output)


def _write(path: str, output: bytes, max_bytes: int) -> NativeLog:
    """What a job that prints `output` leaves in the log."""
    log = NativeLog(path, max_bytes)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    printing = threading.Thread(target=_print, args=(writer, output))
    printing.start()
    going_on = True
    while going_on:
        select.select([reader], [], [])
        going_on = log.drain(reader)
    printing.join()
    os.close(reader)
    log.close()
    return log


@given(output=st.binary(max_size=400), max_bytes=st.integers(0, 300))
def test_what_fits_is_kept_byte_for_byte_and_what_does_not_loses_its_middle(
    tmp_path_factory: pytest.TempPathFactory, output: bytes, max_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    log = _write(str(path), output, max_bytes)
    kept = path.read_bytes()
    if len(output) <= max_bytes:
        assert kept == output
        return
    tail = max_bytes // 2
    head = max_bytes - tail
    dropped = len(output) - max_bytes
    assert log.dropped_bytes == dropped
    assert kept.startswith(output[:head])
    assert kept.endswith(output[len(output) - tail :])
    assert f"{dropped} bytes of output are missing here".encode() in kept


def test_a_long_log_keeps_its_last_64_kib(tmp_path: Path) -> None:
    output = os.urandom(3_000_000)
    _write(str(tmp_path / "log"), output, 1_000_000)
    kept = (tmp_path / "log").read_bytes()
    assert kept[: 1_000_000 - TAIL_BYTES] == output[: 1_000_000 - TAIL_BYTES]
    assert kept[-TAIL_BYTES:] == output[-TAIL_BYTES:]
    assert len(kept) < 1_000_200


def test_who_sits_at_a_terminal_is_told_when_its_log_is_full(tmp_path: Path) -> None:
    log = NativeLog(tmp_path / "log", 1000, of_terminal=True)
    ours, programs = os.openpty()
    os.set_blocking(ours, False)
    for _ in range(3):
        os.write(programs, bytes(400))
        while select.select([ours], [], [], 0)[0]:
            assert log.drain(ours)
    shown = (tmp_path / "log").read_bytes()
    assert shown[:500] == bytes(500)
    full = b"corral: the log is full (1000 bytes); nothing more is shown here until the end\r\n"
    assert shown[500:].strip(b"\n") == full.strip(b"\n")
    os.close(programs)
    assert not log.drain(ours)
    os.close(ours)
    log.close()


def test_who_follows_a_log_that_is_full_is_told_so_once_output_is_lost(tmp_path: Path) -> None:
    log = NativeLog(tmp_path / "log", 1000)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    def printed(data: bytes) -> list[bytes]:
        os.write(writer, data)
        while select.select([reader], [], [], 0)[0]:
            assert log.drain(reader)
        return [line for line in (tmp_path / "log").read_bytes().split(b"\n") if line.startswith(b"corral: ")]

    assert printed(b"x" * 1000) == []
    full = b"corral: the log is full (1000 bytes); nothing more is shown here until the end"
    assert printed(b"y" * 1000) == [full]
    assert printed(b"z" * 1000) == [full]
    os.close(writer)
    os.close(reader)
    log.close()
    cut = b"corral: 2000 bytes of output are missing here (the log is limited to 1000 bytes); what follows is its end"
    assert (tmp_path / "log").read_bytes().split(b"\n") == [b"x" * 500, full, cut, b"z" * 500]


def test_a_retry_goes_on_in_the_same_log(tmp_path: Path) -> None:
    for text in (b"first\n", b"second\n"):
        _write(str(tmp_path / "log"), text, 1000)
    assert (tmp_path / "log").read_bytes() == b"first\nsecond\n"


def test_a_log_is_not_written_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "log").symlink_to(tmp_path / "victim")
    log = _write(str(tmp_path / "log"), b"x" * 100, 1000)
    assert (tmp_path / "victim").read_text() == "precious"
    assert log.error
    assert log.dropped_bytes == 100


def test_binary_output_arrives_as_it_was_printed(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "printf '\\000\\377\\033[31m\\r\\n'; printf 'and more' >&2")
    machine.wait(name)
    assert machine.log(name) == b"\x00\xff\x1b[31m\r\nand more"


def test_a_flood_of_output_flows_on_and_stays_within_the_limit(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "head -c 256M /dev/zero; printf the-end")
    machine.wait(name)
    log = machine.log(name)
    assert len(log) < (1 << 20) + 200
    assert log.endswith(b"the-end")


def test_a_log_that_cannot_be_opened_costs_the_output_and_not_the_job(machine: Machine) -> None:
    name = "no-log"
    (machine.home / "logs" / f"{name}.log").mkdir()
    state = machine.run("sh", "-c", "head -c 300000 /dev/zero; exit 3", launch_id=name)
    assert state.exit is not None
    assert (state.exit.exit_code, state.exit.reason) == (3, None)
    assert state.exit.message == "cannot write the log: Is a directory; 300000 bytes of output were dropped"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], stderr=subprocess.DEVNULL)
    if mounted.returncode:
        pytest.skip("this process may not mount a file system")
    yield disk
    subprocess.run(["umount", disk], check=True)


@root_only()
@pytest.mark.parametrize("room_bytes", [0, 20_000])
def test_output_that_a_full_disk_lost_is_marked_in_the_log(small_disk: Path, room_bytes: int) -> None:
    log = NativeLog(small_disk / "log", 1 << 20)
    (small_disk / "fill").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096 - room_bytes))
    reader, writer = os.pipe()
    os.write(writer, b"x" * 60_000)
    os.close(writer)
    os.set_blocking(reader, False)
    while log.drain(reader):
        pass
    os.close(reader)
    log.close()
    kept, mark, end = (small_disk / "log").read_bytes().split(b"\n")
    assert end == b""
    assert set(kept) == set(b"x")
    assert mark.decode().endswith("bytes of output are missing here (cannot write the log: No space left on device)")
    assert len(kept) + log.dropped_bytes == 60_000


@root_only()
def test_a_full_disk_neither_stops_the_job_nor_loses_how_it_ended(small_disk: Path) -> None:
    machine = Machine(small_disk)
    try:
        name = machine.launch("sh", "-c", "head -c 2M /dev/zero; sleep 0.2; exit 5")
        state = machine.wait(name)
        assert state.exit is not None
        assert (state.exit.exit_code, state.exit.reason) == (5, None)
        assert state.exit.message.startswith("cannot write the log: No space left on device; ")
        with pytest.raises(LaunchError, match="No space left on device"):
            machine.launch("true")
    finally:
        for log in (small_disk / "logs").iterdir():
            log.unlink()
        machine.shut()


def test_what_a_job_chose_cannot_pass_for_another_line_of_corrals(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    log = NativeLog(path, 1000)
    log.note("no such file: x\ncorral: all is well\x1b[2J")
    log.close()
    append_note(path, "cannot enter \x1b[1m\n")
    assert Path(path).read_text().splitlines() == [
        "corral: no such file: x\\ncorral: all is well\\x1b[2J",
        "corral: cannot enter \\x1b[1m\\n",
    ]


def test_a_line_of_corrals_own_begins_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    _write(path, b"50%", 1000)
    append_note(path, "one")
    append_note(path, "two")
    log = NativeLog(path, 1000)
    log.note("three")
    log.close()
    assert Path(path).read_text().splitlines() == ["50%", "corral: one", "corral: two", "corral: three"]


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
