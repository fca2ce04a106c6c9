"""Taking GPUs without a server: no two leases ever have the same one."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed, Refused
from corral.gpu import Lease, LeaseTimedOut, lease, lock_files
from tests.vendors.nvidia.nvml_stub import NvmlStub, stub_uuid


@pytest.fixture
def stub(stubbed_nvml: NvmlStub) -> NvmlStub:
    stubbed_nvml.say("devices 3")
    return stubbed_nvml


def hold_elsewhere(directory: Path, uuid: str) -> "subprocess.Popen[str]":
    """Another process that holds a GPU until it is ended; it has it when this returns."""
    script = (
        "import sys; from pathlib import Path; from corral.gpu import lock_files; "
        "lock_files.DIRECTORY = Path(sys.argv[1]); print(lock_files.take(sys.argv[2]) is not None, flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(directory), uuid], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def test_a_lease_is_of_the_best_gpus_and_says_how_to_see_them(stub: NvmlStub) -> None:
    stub.say("devices 3", "gpu 0 util 30")
    with lease(gpus=2) as held:
        assert held.uuids == (stub_uuid(1), stub_uuid(2))
        assert held.indices == (1, 2)
        assert held.env == {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": f"{stub_uuid(1)},{stub_uuid(2)}",
        }
        assert held.job_id is None


def test_what_is_leased_is_not_leased_again_until_it_is_released(stub: NvmlStub) -> None:
    with lease(gpus=2) as first:
        with lease() as second:
            assert not set(first.uuids) & set(second.uuids)
            with pytest.raises(LeaseTimedOut, match="GPU 0: leased by another process"):
                lease(timeout_seconds=0)
        assert lease(timeout_seconds=0).uuids == second.uuids


def test_all_or_none_are_taken(stub: NvmlStub) -> None:
    with lease():
        with pytest.raises(LeaseTimedOut):
            lease(gpus=3, timeout_seconds=0)
        with lease(gpus=2, timeout_seconds=0) as rest:
            assert len(rest.uuids) == 2


def test_a_lease_waits_for_its_turn(stub: NvmlStub) -> None:
    first = lease(gpus=3)
    timer = threading.Timer(0.1, first.release)
    timer.start()
    with lease(gpus=3, timeout_seconds=60) as second:
        assert len(second.uuids) == 3
    timer.join()


def test_many_threads_never_share_a_gpu(stub: NvmlStub) -> None:
    users = dict.fromkeys([stub_uuid(i) for i in range(3)], 0)
    clashes: list[str] = []

    def work() -> None:
        for _ in range(5):
            with lease(timeout_seconds=60) as held:
                users[held.uuids[0]] += 1
                clashes.extend(uuid for uuid in held.uuids if users[uuid] != 1)
                time.sleep(0.001)
                users[held.uuids[0]] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clashes == []


def test_a_process_that_is_killed_gives_its_gpu_back(stub: NvmlStub) -> None:
    with hold_elsewhere(lock_files.DIRECTORY, stub_uuid(0)) as other:
        assert lock_files.is_leased(stub_uuid(0))
        assert lease(timeout_seconds=0).indices == (1,)
        other.kill()
    assert not lock_files.is_leased(stub_uuid(0))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")
def test_leases_of_different_users_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o1777)
        monkeypatch.setattr(lock_files, "DIRECTORY", Path(shared) / "leases")
        mine = lock_files.take("mine")
        assert mine is not None
        assert as_nobody(lambda: lock_files.is_leased("mine"))
        assert as_nobody(lambda: lock_files.take("mine") is None)
        assert as_nobody(lambda: lock_files.take("theirs") is not None)
        lock_files.give_back(mine)
        assert as_nobody(lambda: lock_files.take("mine") is not None)
        assert lock_files.take("theirs") is not None


def as_nobody(holds: Callable[[], bool]) -> bool:
    """Whether it holds in a process of another user, which then ends."""
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os._exit(0 if holds() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def test_a_directory_that_is_a_link_is_not_followed(tmp_path: Path, stub: NvmlStub) -> None:
    lock_files.DIRECTORY.symlink_to(tmp_path)
    with pytest.raises(BackendFailed, match="is not a directory"):
        lease()


def test_a_gpu_with_a_process_on_it_is_left_alone(stub: NvmlStub) -> None:
    stub.say("devices 2", "gpu 0 process 4194999 100")
    assert lease().indices == (1,)
    with pytest.raises(LeaseTimedOut, match="GPU 0: in use by 1 other program"):
        lease(timeout_seconds=0)


def test_more_than_there_are_is_refused_and_not_waited_for(stub: NvmlStub) -> None:
    with pytest.raises(Refused, match="this machine has 3 GPUs; 4 cannot be leased"):
        lease(gpus=4)
    with pytest.raises(Refused, match="this machine has 0 GPUs with 90000 MB"):
        lease(min_memory_mb=90_000)


@pytest.mark.parametrize("count", [0, -1, True, 1.5])
def test_a_count_that_is_none_is_refused(count: object) -> None:
    with pytest.raises(Refused, match=r"^gpus: .* must be (1 or more|a whole number)"):
        lease(count)  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_nothing_can_be_leased() -> None:
    with pytest.raises(BackendFailed, match="none that can be read"):
        lease()


def test_inside_a_job_a_lease_is_of_the_jobs_own_gpus(stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_JOB_ID", "17")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", stub_uuid(2))
    with lease() as held:
        assert held.uuids == (stub_uuid(2),)
    with pytest.raises(Refused, match="this job has 1 GPU"):
        lease(gpus=2)


def test_the_environment_is_changed_on_request_and_restored(stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    with lease() as held:
        assert "CUDA_VISIBLE_DEVICES" not in os.environ
        held.apply()
        assert os.environ["CUDA_VISIBLE_DEVICES"] == stub_uuid(0)
        assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


def test_releasing_twice_gives_back_once() -> None:
    given_back: list[str] = []
    held = Lease({"a": 0}, lambda: given_back.append("a"))
    held.release()
    held.release()
    assert given_back == ["a"]


def test_a_forked_child_does_not_give_back_what_its_parent_holds(stub: NvmlStub) -> None:
    with lease() as held:
        child = os.fork()
        if child == 0:
            held.release()
            os._exit(0)
        os.waitpid(child, 0)
        assert lock_files.is_leased(held.uuids[0])
