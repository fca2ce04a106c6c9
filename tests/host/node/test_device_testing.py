"""Tests of devices: real commands, which may hang, lie, flood or leave processes behind."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.errors import NotFound
from corral.core.ports.node import DeviceTest, DeviceTestReport
from corral.host.node.device_testing import OUTPUT_BYTES, DeviceTesting
from corral.host.runtimes.process.procfs import marked
from corral.host.telemetry.processes import HostProcesses

NODE = Node("box", (Device("GPU-0", 3, "NVIDIA A100", 81_920),), 8000, 32_768)


class Rig:
    """A node with one device, which a driver reads."""

    def __init__(self, tag: str = "a-home", *, described: bool = False) -> None:
        self.sample = DeviceSample("GPU-0", 0.0)
        self.testing = DeviceTesting(lambda: NODE, self.read, tag=tag, described=described)

    def read(self, uuids: Sequence[str], timeout_s: float) -> tuple[DeviceSample, ...]:
        return (self.sample,)

    def ends(self, command: str | None, *, timeout_s: float = 30.0, number: int = 1) -> DeviceTestReport:
        test = DeviceTest(f"test {number}", "GPU-0", timeout_s, command)
        deadline = time.monotonic() + 60
        while (report := self.testing.take(test)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return report


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(str(tmp_path))
    yield rig
    rig.testing.close()


def test_the_verdict_is_the_exit_status_whatever_the_command_says(rig: Rig) -> None:
    assert rig.ends("echo all is FAILED; exit 0") == DeviceTestReport(None, "all is FAILED")
    lied = rig.ends("echo all is well; exit 3", number=2)
    assert lied.failure == "the test exited with 3: all is well"
    assert rig.ends("kill -SEGV $$", number=3).failure == "the test was ended by signal 11: it wrote nothing"


def test_a_command_that_hangs_fails_at_its_deadline_with_all_that_it_has_started(rig: Rig) -> None:
    report = rig.ends("sleep 1000 & echo $!; sleep 1000", timeout_s=1.0)
    assert report.failure == "the test had not ended after 1s"
    must_end(int(report.output))


def test_a_process_that_left_the_group_of_its_test_ends_with_it(rig: Rig) -> None:
    must_end(int(rig.ends("setsid sh -c 'echo $$; exec >/dev/null 2>&1; sleep 1000' & sleep 1").output))


def test_a_test_that_a_server_left_behind_ends_before_the_next_one_begins(tmp_path: Path) -> None:
    of_the_test = {**os.environ, "CORRAL_TEST": f"{tmp_path}/GPU-0"}
    with subprocess.Popen(["sleep", "1000"], env=of_the_test, start_new_session=True) as left:
        assert Rig(str(tmp_path)).ends("exit 0").failure is None
        assert left.wait(30) == -signal.SIGKILL


def test_the_tests_that_run_end_with_their_server(rig: Rig, tmp_path: Path) -> None:
    mark = f"CORRAL_TEST={tmp_path}/GPU-0".encode()
    rig.testing.take(DeviceTest("test 1", "GPU-0", 600.0, "setsid sleep 1000 & sleep 1000"))
    deadline = time.monotonic() + 30
    while len(marked(mark)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    rig.testing.close()
    assert marked(mark) == []


def must_end(left: int) -> None:
    deadline = time.monotonic() + 30
    while HostProcesses().identify(left) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_is_left_with_the_output_keeps_nobody_waiting(rig: Rig) -> None:
    began = time.monotonic()
    assert rig.ends("sleep 100 & exit 0").failure is None
    assert time.monotonic() - began < 50


def test_a_flood_of_output_is_cut_and_made_printable(rig: Rig) -> None:
    report = rig.ends("yes x | head -c 10000000; printf '\\033[31mred'; exit 1")
    assert len(report.output) <= OUTPUT_BYTES + 10
    assert report.failure == "the test exited with 1: \\x1b[31mred"


def test_a_command_that_is_missing_fails(rig: Rig) -> None:
    assert "not found" in str(rig.ends("/nonexistent/gpu-test").failure)


def test_the_command_sees_its_device_alone_and_is_told_which_it_is(rig: Rig) -> None:
    report = rig.ends('echo "$CUDA_VISIBLE_DEVICES $CORRAL_TEST_GPU $CORRAL_TEST_GPU_INDEX"')
    assert report.output == "GPU-0 GPU-0 3"


def test_an_order_runs_once_and_its_report_is_given_again(rig: Rig, tmp_path: Path) -> None:
    command = f"echo once >> {tmp_path}/runs"
    assert rig.ends(command) == rig.ends(command)
    assert rig.ends(command, number=2).failure is None
    assert (tmp_path / "runs").read_text() == "once\nonce\n"


def test_a_device_that_is_gone_cannot_be_tested(rig: Rig) -> None:
    with pytest.raises(NotFound, match="GPU-9"):
        rig.testing.take(DeviceTest("test 1", "GPU-9", 1.0))


def test_a_mock_device_passes_if_it_can_be_read_and_has_no_errors() -> None:
    rig = Rig(described=True)
    assert rig.ends(None).failure is None
    rig.sample = DeviceSample("GPU-0", 0.0, fault="the device is lost")
    assert rig.ends(None, number=2).failure == "the device is lost"
    rig.sample = DeviceSample("GPU-0", 0.0, ecc_errors=2)
    assert rig.ends(None, number=3).failure == "2 memory errors"
