"""What is known to go wrong is told at the door, for the devices that the job may get."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from corral.access.caller import Caller
from corral.clock import ManualClock
from corral.control.inspection import TRUST_S, Inspection, places_of
from corral.model.device import Device, Node
from corral.model.errors import Refused
from corral.model.fact import NodeObserved
from corral.model.job import Request
from corral.model.submission import Submission
from corral.model.view import View

T4 = Device("GPU-t", 0, "Tesla T4", 15360, compute_capability=(7, 5))
A100 = Device("GPU-a", 1, "NVIDIA A100-SXM4-80GB", 81920, compute_capability=(8, 0))
BF16 = Submission(("vllm", "serve", "opt-125m", "--dtype", "bfloat16"), workdir="/")
ALICE = Caller("alice", os.getuid(), os.getgid())


def with_devices(*devices: Device) -> View:
    node = Node("here", devices, 8000, 32768, driver_version="550.54.15", cuda_version=(12, 4))
    return View().advance([NodeObserved(node)])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def inspection(clock: ManualClock) -> Inspection:
    return Inspection(clock)


def test_what_no_device_can_run_is_refused_and_force_lets_it_in(inspection: Inspection) -> None:
    with pytest.raises(Refused, match=r"bfloat16.*--dtype=half.*--force"):
        inspection.notes(with_devices(T4), BF16, ALICE)
    forced = replace(BF16, force=True)
    assert "bfloat16" in inspection.notes(with_devices(T4), forced, ALICE)[0]
    assert inspection.overrides(with_devices(T4), forced, ALICE)


def test_force_overrides_nothing_where_nothing_is_wrong(inspection: Inspection) -> None:
    assert inspection.notes(with_devices(A100), BF16, ALICE) == ()
    assert not inspection.overrides(with_devices(A100), replace(BF16, force=True), ALICE)


def test_what_only_some_devices_cannot_run_is_told_with_their_model(inspection: Inspection) -> None:
    (note,) = inspection.notes(with_devices(T4, A100), BF16, ALICE)
    assert note.startswith("preflight: on Tesla T4: ")


def test_devices_that_the_job_cannot_get_do_not_count(inspection: Inspection) -> None:
    wanting = replace(BF16, request=Request(models=("T4",)))
    with pytest.raises(Refused):
        inspection.notes(with_devices(T4, A100), wanting, ALICE)


def test_the_memory_that_counts_is_what_is_granted() -> None:
    half = Request(share_milli=500, split_milli=500)
    assert [place.memory_mib for place in places_of(with_devices(A100), half)] == [40960]
    spread = Request(share_milli=1000, split_milli=1200)
    (place,) = places_of(with_devices(A100, replace(A100, uuid="GPU-b")), spread)
    assert (place.devices, place.share_milli) == (2, 600)


def test_a_command_that_was_inspected_is_known_for_a_while(inspection: Inspection, clock: ManualClock) -> None:
    assert not inspection.is_known(BF16, ALICE)
    inspection.notes(with_devices(A100), BF16, ALICE)
    assert inspection.is_known(BF16, ALICE)
    assert not inspection.is_known(replace(BF16, workdir="/tmp"), ALICE)
    assert inspection.is_known(replace(BF16, request=Request(devices=0)), ALICE)
    clock.advance(TRUST_S)
    assert not inspection.is_known(BF16, ALICE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take on another user's rights")
def test_what_a_user_may_not_read_is_not_read_for_them(inspection: Inspection, tmp_path: Path) -> None:
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "torch"
    site.mkdir(parents=True)
    (site / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
    (tmp_path / "env" / "bin").mkdir()
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "env").chmod(0o700)
    job = Submission((str(tmp_path / "env" / "bin" / "python"), "train.py"), workdir="/")
    with pytest.raises(Refused, match=r"CUDA 13\.0"):
        inspection.notes(with_devices(A100), job, ALICE)
    nobody = Caller("nobody", 65534, 65534)
    assert inspection.notes(with_devices(A100), job, nobody) == ()
    assert os.access(tmp_path / "env" / "bin", os.R_OK), "the thread has its own rights again"
