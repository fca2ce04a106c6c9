import os
import signal
import threading
from pathlib import Path

import pytest

from corral.backends.process.procfs import ProcessIdentity
from corral.backends.process.records import Claim, Exit, LaunchRecords, Started

HOLDER = ProcessIdentity(12, 34, "boot")


@pytest.fixture
def records(tmp_path: Path) -> LaunchRecords:
    return LaunchRecords(str(tmp_path))


def test_an_empty_directory_says_nothing(records: LaunchRecords) -> None:
    assert records.read_claim() is None
    assert records.read_started() is None
    assert records.read_exit() is None
    assert records.stop_reason() is None


def test_only_one_of_many_gets_the_claim(records: LaunchRecords) -> None:
    won: list[float] = []
    together = threading.Barrier(16)

    def contend(number: float) -> None:
        together.wait()
        if records.take_claim(Claim(number, HOLDER)):
            won.append(number)

    contenders = [threading.Thread(target=contend, args=(float(number),)) for number in range(16)]
    for contender in contenders:
        contender.start()
    for contender in contenders:
        contender.join()
    assert len(won) == 1
    assert records.read_claim() == Claim(won[0], HOLDER)
    assert os.listdir(records.directory) == ["claim"]


def test_what_was_written_is_read_back(records: LaunchRecords) -> None:
    lost = Claim(1.5, None, declared_lost=True, message='no "answer"\n')
    assert records.take_claim(lost)
    records.write_started(Started(HOLDER, 2.5))
    records.request_stop("preempted")
    records.reserve_exit()
    ended = Exit(143, 15, "cancelled", "a \udcff message", 2.5, 3.25)
    records.write_exit(ended)
    assert records.read_claim() == lost
    assert records.read_started() == Started(HOLDER, 2.5)
    assert records.stop_reason() == "preempted"
    assert records.read_exit() == ended


def test_a_claim_torn_by_a_crash_of_the_machine_counts_as_taken(records: LaunchRecords) -> None:
    (Path(records.directory) / "claim").touch()
    claim = records.read_claim()
    assert claim is not None
    assert claim.holder is None
    assert not claim.declared_lost
    assert not records.take_claim(Claim(1.0, HOLDER))


def test_a_torn_exit_record_counts_as_absent(records: LaunchRecords) -> None:
    for torn in (b"", b" " * 4096, b'{"exit_code": 0', b"\0" * 4096):
        (Path(records.directory) / "exit").write_bytes(torn)
        assert records.read_exit() is None


def test_a_process_is_known_by_pid_start_and_boot() -> None:
    own = ProcessIdentity.of(os.getpid())
    assert own.is_alive()
    assert not own._replace(start_ticks=own.start_ticks - 1).is_alive()
    assert not own._replace(boot_id="another").is_alive()


def test_a_zombie_is_not_alive() -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    identity = ProcessIdentity.of(child)
    assert identity.is_alive()
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not identity.is_alive()
    os.waitpid(child, 0)
    with pytest.raises(ProcessLookupError):
        ProcessIdentity.of(child)
