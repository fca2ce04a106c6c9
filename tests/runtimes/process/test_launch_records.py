import os
import signal
from pathlib import Path

import pytest

from corral.runtimes.process.claim import Claim, Started
from corral.runtimes.process.launch_records import Exit, LaunchRecords
from corral.runtimes.process.procfs import LocalProcess
from tests.runtimes.process.conftest import room_for

HOLDER = LocalProcess(12, 34, "boot")


@pytest.fixture
def records(tmp_path: Path) -> LaunchRecords:
    return LaunchRecords(str(tmp_path))


def test_an_empty_directory_says_nothing(records: LaunchRecords) -> None:
    assert records.claim.read() is None
    assert records.claim.read_started() is None
    assert records.read_exit() is None
    assert records.stop_reason() is None


def test_what_was_written_is_read_back(records: LaunchRecords) -> None:
    lost = Claim(1.5, None, declared_lost=True, message='no "answer"\n')
    assert records.claim.take(lost)
    records.claim.write_started(Started(HOLDER, 2.5))
    records.request_stop("preempted")
    records.reserve_exit()
    ended = Exit(143, 15, "cancelled", "a \udcff message", 2.5, 3.25)
    records.write_exit(ended)
    assert records.claim.read() == lost
    assert records.claim.read_started() == Started(HOLDER, 2.5)
    assert records.stop_reason() == "preempted"
    assert records.read_exit() == ended


def test_what_the_disk_has_no_room_for_is_not_written_in_part(records: LaunchRecords) -> None:
    with room_for(64), pytest.raises(OSError, match="File too large"):
        records.request_stop("x" * 64)
    assert records.stop_reason() is None
    assert not Path(records.directory, "stop").exists()


def test_a_torn_exit_record_counts_as_absent(records: LaunchRecords) -> None:
    for torn in (b"", b" " * 4096, b'{"exit_code": 0', b"\0" * 4096):
        (Path(records.directory) / "exit").write_bytes(torn)
        assert records.read_exit() is None


def test_a_process_is_known_by_pid_start_and_boot() -> None:
    own = LocalProcess.of(os.getpid())
    assert own.is_alive()
    assert not own._replace(start_ticks=own.start_ticks - 1).is_alive()
    assert not own._replace(boot_id="another").is_alive()


def test_a_zombie_is_not_alive() -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    identity = LocalProcess.of(child)
    assert identity.is_alive()
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not identity.is_alive()
    os.waitpid(child, 0)
    with pytest.raises(ProcessLookupError):
        LocalProcess.of(child)
