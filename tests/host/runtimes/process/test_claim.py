import os
import threading
from pathlib import Path

import pytest

from corral.host.runtimes.process.procfs import LocalProcess
from corral.host.runtimes.process.records.claim import Claim, ClaimFile
from tests.host.runtimes.process.conftest import room_for

HOLDER = LocalProcess(12, 34, "boot")


@pytest.fixture
def claim_file(tmp_path: Path) -> ClaimFile:
    return ClaimFile(str(tmp_path))


def test_only_one_of_many_gets_the_claim(claim_file: ClaimFile, tmp_path: Path) -> None:
    won: list[float] = []
    together = threading.Barrier(16)

    def contend(number: float) -> None:
        together.wait()
        if claim_file.take(Claim(number, HOLDER)):
            won.append(number)

    contenders = [threading.Thread(target=contend, args=(float(number),)) for number in range(16)]
    for contender in contenders:
        contender.start()
    for contender in contenders:
        contender.join()
    assert len(won) == 1
    assert claim_file.read() == Claim(won[0], HOLDER)
    assert os.listdir(tmp_path) == ["claim"]


def test_a_claim_that_the_disk_has_no_room_for_is_not_taken(claim_file: ClaimFile, tmp_path: Path) -> None:
    with room_for(64), pytest.raises(OSError, match="File too large"):
        claim_file.take(Claim(1.5, HOLDER))
    assert os.listdir(tmp_path) == []


def test_a_claim_torn_by_a_crash_of_the_machine_counts_as_taken(claim_file: ClaimFile, tmp_path: Path) -> None:
    (tmp_path / "claim").touch()
    claim = claim_file.read()
    assert claim is not None
    assert claim.holder is None
    assert not claim.declared_lost
    assert not claim_file.take(Claim(1.0, HOLDER))
