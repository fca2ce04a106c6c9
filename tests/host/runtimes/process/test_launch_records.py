import os
import signal
import time
from pathlib import Path

import pytest

from corral.host.runtimes.process.procfs import LocalProcess
from corral.host.runtimes.process.records.claim import Claim, Started
from corral.host.runtimes.process.records.launch_records import Exit, LaunchRecords
from tests.host.runtimes.process.conftest import room_for
from tests.host.runtimes.process.supervisor_parts import new_time_limit_s, parts, stop_reason, write_exit

CLAIMED, CLAIMED_BY_ANOTHER = 0, 1
"""What claiming comes to, as native/records.h has it."""


@pytest.fixture
def records(tmp_path: Path) -> LaunchRecords:
    return LaunchRecords(str(tmp_path))


def test_an_empty_directory_says_nothing(records: LaunchRecords) -> None:
    assert records.claim.read() is None
    assert records.claim.read_started() is None
    assert records.read_exit() is None
    assert stop_reason(records.directory) is None
    assert new_time_limit_s(records.directory) is records.new_time_limit_s() is None


def test_what_a_server_writes_is_read_back_by_servers_and_supervisors(records: LaunchRecords) -> None:
    lost = Claim(1.5, None, declared_lost=True, message='no "answer"\n')
    assert records.claim.take(lost)
    assert records.claim.read() == lost
    assert parts().claim_launch(records.directory.encode()) == CLAIMED_BY_ANOTHER
    records.request_stop("preempted")
    assert stop_reason(records.directory) == "preempted"
    records.set_time_limit(7.5)
    assert new_time_limit_s(records.directory) == records.new_time_limit_s() == 7.5


def test_what_a_supervisor_writes_is_read_back_by_servers(records: LaunchRecords) -> None:
    own = LocalProcess.of(os.getpid())
    before = time.time()
    assert parts().claim_launch(records.directory.encode()) == CLAIMED
    assert parts().write_started(records.directory.encode(), os.getpid(), 2.5)
    claim = records.claim.read()
    assert claim is not None
    assert before - 1 <= claim.claimed_at <= time.time() + 1
    assert claim == Claim(claim.claimed_at, own)
    assert not records.claim.take(Claim(1.0, own))
    assert records.claim.read_started() == Started(own, 2.5)
    assert parts().reserve_exit(records.directory.encode())
    assert records.read_exit() is None
    ended = Exit(143, 15, "cancelled", "a \udcff message", 2.5, 3.25)
    assert write_exit(records.directory, ended)
    assert records.read_exit() == ended


def test_what_the_disk_has_no_room_for_is_not_written_in_part(records: LaunchRecords) -> None:
    with room_for(64), pytest.raises(OSError, match="File too large"):
        records.request_stop("x" * 64)
    assert stop_reason(records.directory) is None
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
