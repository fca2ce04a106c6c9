"""What is known to go wrong is told at the door, for the devices that the job may get."""

import os
from dataclasses import replace

import pytest

from corral.access.caller import Caller
from corral.clock import ManualClock
from corral.control.submitting.file_findings import FileFindings, FileFindingsCache
from corral.control.submitting.preflight import SubmissionPreflight, places_of
from corral.model.device import Device, Node
from corral.model.errors import Refused
from corral.model.fact import NodeObserved
from corral.model.job import Request
from corral.model.submission import Submission
from corral.model.view import View
from corral.node.file_inspector import InProcessFileInspector

T4 = Device("GPU-t", 0, "Tesla T4", 15360, compute_capability=(7, 5))
A100 = Device("GPU-a", 1, "NVIDIA A100-SXM4-80GB", 81920, compute_capability=(8, 0))
BF16 = Submission(("vllm", "serve", "opt-125m", "--dtype", "bfloat16"), workdir="/")
ALICE = Caller("alice", os.getuid(), os.getgid())


def with_devices(*devices: Device) -> View:
    node = Node("here", devices, 8000, 32768, driver_version="550.54.15", cuda_version=(12, 4))
    return View().advance([NodeObserved(node)])


def inspected(view: View, submission: Submission) -> tuple[str, ...]:
    (files,) = FileFindingsCache(InProcessFileInspector(), ManualClock()).inspect([submission], ALICE)
    return SubmissionPreflight().notes(view, submission, ALICE, files)


def overridden(view: View, submission: Submission) -> bool:
    (files,) = FileFindingsCache(InProcessFileInspector(), ManualClock()).inspect([submission], ALICE)
    return SubmissionPreflight().overrides(view, submission, files)


def test_what_no_device_can_run_is_refused_and_force_lets_it_in() -> None:
    with pytest.raises(Refused, match=r"bfloat16.*--dtype=half.*--force"):
        inspected(with_devices(T4), BF16)
    forced = replace(BF16, force=True)
    assert "bfloat16" in inspected(with_devices(T4), forced)[0]
    assert overridden(with_devices(T4), forced)


def test_force_overrides_nothing_where_nothing_is_wrong() -> None:
    assert inspected(with_devices(A100), BF16) == ()
    assert not overridden(with_devices(A100), replace(BF16, force=True))


def test_what_only_some_devices_cannot_run_is_told_with_their_model() -> None:
    (note,) = inspected(with_devices(T4, A100), BF16)
    assert note.startswith("preflight: on Tesla T4: ")


def test_devices_that_the_job_cannot_get_do_not_count() -> None:
    wanting = replace(BF16, request=Request(models=("T4",)))
    with pytest.raises(Refused):
        inspected(with_devices(T4, A100), wanting)


def test_a_working_directory_that_is_none_is_refused_and_one_that_does_not_answer_is_told() -> None:
    with pytest.raises(Refused, match="'/no/such' is not a directory on this machine that alice can use"):
        inspected(with_devices(A100), replace(BF16, workdir="/no/such"))
    notes = SubmissionPreflight().notes(with_devices(T4), BF16, ALICE, FileFindings(enterable=None))
    assert notes == (
        "the working directory '/' could not be checked in time (3 s); the job will fail if it does not exist",
        "preflight: the files of the command could not be read in time (3 s), so they were not checked",
    )


def test_the_memory_that_counts_is_what_is_granted() -> None:
    half = Request(share_milli=500, split_milli=500)
    assert [place.memory_mib for place in places_of(with_devices(A100), half)] == [40960]
    spread = Request(share_milli=1000, split_milli=1200)
    (place,) = places_of(with_devices(A100, replace(A100, uuid="GPU-b")), spread)
    assert (place.devices, place.share_milli) == (2, 600)
