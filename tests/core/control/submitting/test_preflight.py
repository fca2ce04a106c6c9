"""What is known to go wrong is told at the door, for the devices that the job may get."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.access.caller import Caller
from corral.core.control.submitting.candidate_nodes import EligibleNodes
from corral.core.control.submitting.file_findings import FileFindings, NodeFindings
from corral.core.control.submitting.image_findings import ImageFinding
from corral.core.control.submitting.preflight import SubmissionPreflight, places_of
from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Refused
from corral.core.model.fact import NodeObserved
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.view import View
from corral.core.ports.images import ImageFacts
from corral.core.ports.preflight import Workload
from corral.core.preflight.detect import Detection, detect

T4 = Device("GPU-t", 0, "Tesla T4", 15360, compute_capability=(7, 5))
A100 = Device("GPU-a", 1, "NVIDIA A100-SXM4-80GB", 81920, compute_capability=(8, 0))
BF16 = Submission(("vllm", "serve", "opt-125m", "--dtype", "bfloat16"), workdir="/")
ALICE = Caller("alice", os.getuid(), os.getgid())


def with_devices(*devices: Device) -> View:
    node = Node("here", devices, 8000, 32768, driver_version="550.54.15", cuda_version=(12, 4))
    return View().advance([NodeObserved(node)])


def on_node(submission: Submission) -> NodeFindings:
    """What is found where the files are as they are here."""
    there = Path(submission.workdir)
    return NodeFindings(there.is_dir(), detect(submission.command, submission.env, there))


def inspected(view: View, submission: Submission, **findings: NodeFindings) -> tuple[str, ...]:
    """The notes; `findings` are by node, those of this machine's files where none are given."""
    files = FileFindings(findings or dict.fromkeys(view.nodes, on_node(submission)))
    return SubmissionPreflight(EligibleNodes()).notes(view, submission, ALICE, files)


def overridden(view: View, submission: Submission) -> bool:
    files = FileFindings(dict.fromkeys(view.nodes, on_node(submission)))
    return SubmissionPreflight(EligibleNodes()).overrides(view, submission, ALICE, files)


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
    notes = inspected(with_devices(T4), BF16, here=NodeFindings(enterable=None))
    assert notes == (
        "the working directory '/' could not be checked in time (3 s); the job will fail if it does not exist",
        "preflight: the files of the command could not be read in time (3 s), so they were not checked",
    )


def test_the_memory_that_counts_is_what_is_granted() -> None:
    half = Request(share_milli=500, split_milli=500)
    assert [place.memory_mib for place in places_of(with_devices(A100), half, ["here"])] == [40960]
    spread = Request(share_milli=1000, split_milli=1200)
    (place,) = places_of(with_devices(A100, replace(A100, uuid="GPU-b")), spread, ["here"])
    assert (place.devices, place.share_milli) == (2, 600)


def nodes_with(**devices: Device) -> View:
    """A node for each of these devices; that of b has an older driver."""
    nodes = (
        Node(name, (device,), 8000, 32768, driver_version=driver, cuda_version=cuda)
        for name, device in devices.items()
        for driver, cuda in [("470.57.02", (11, 4)) if name == "b" else ("550.54.15", (12, 4))]
    )
    return View().advance(NodeObserved(node) for node in nodes)


THERE, MISSING, UNSEEN = (NodeFindings(enterable, on_node(BF16).detection) for enterable in (True, False, None))


def test_a_directory_that_some_nodes_lack_is_told_with_their_names() -> None:
    view = nodes_with(a=A100, c=replace(A100, uuid="GPU-c"), d=replace(A100, uuid="GPU-d"))
    lacks, unchecked = inspected(view, BF16, a=MISSING, c=THERE, d=UNSEEN)
    assert lacks.startswith("the working directory '/' is not a directory on a; it is on c: name a node with --node")
    assert "could not be checked in time (3 s) on d; the job" in unchecked


def test_a_directory_that_no_node_has_is_refused_and_one_that_may_be_there_is_not() -> None:
    view = nodes_with(a=A100, c=replace(A100, uuid="GPU-c"))
    with pytest.raises(Refused, match=r"'/' is not a directory that alice can use on a, c, where .* --node"):
        inspected(view, BF16, a=MISSING, c=MISSING)
    assert "is not a directory on a; choose another directory" in inspected(view, BF16, a=MISSING, c=UNSEEN)[0]


def test_where_no_node_answers_the_directory_is_not_known() -> None:
    (note,) = SubmissionPreflight(EligibleNodes()).notes(nodes_with(a=A100, c=T4), BF16, ALICE, FileFindings())
    assert "'/' could not be checked: no node that could run the job answers now; the job will fail" in note


def test_files_are_judged_beside_the_driver_of_their_own_node() -> None:
    view = nodes_with(a=A100, b=replace(A100, uuid="GPU-b"))
    brings_cuda_12 = NodeFindings(True, Detection(Workload(runtime=(12, 4))))
    (note,) = inspected(view, BF16, a=brings_cuda_12, b=brings_cuda_12)
    assert note.startswith("preflight: on b: ")
    brings_cuda_11 = NodeFindings(True, Detection(Workload(runtime=(11, 4))))
    assert inspected(view, BF16, a=brings_cuda_12, b=brings_cuda_11) == ()


def test_devices_of_nodes_that_were_not_asked_count_too() -> None:
    view = nodes_with(a=T4, c=A100)
    (note,) = inspected(view, BF16, a=on_node(BF16))
    assert note.startswith("preflight: on Tesla T4: ")
    with pytest.raises(Refused, match="bfloat16"):
        inspected(view, replace(BF16, request=Request(node="a")), a=on_node(BF16))


OLD = Node("here", (T4,), 8000, 32768, driver_version="450.80.02", cuda_version=(11, 0))
IN_CONTAINER = replace(BF16, command=("python", "train.py"), container=Container(image="train:1"))
CUDA_12 = ImageFinding("train:1", ImageFacts({"CUDA_VERSION": "12.4.1"}, {}))
UNKNOWN = ImageFinding("train:1", why_not="it is in no registry", failed=True)


def noted_in_container(submission: Submission, image: ImageFinding | None, *nodes: Node) -> tuple[str, ...]:
    view = View().advance(map(NodeObserved, nodes or (OLD,)))
    return SubmissionPreflight(EligibleNodes()).notes(view, submission, ALICE, FileFindings(image=image))


def test_a_container_is_checked_by_its_command_and_by_what_its_image_says() -> None:
    with pytest.raises(Refused, match=r"brings CUDA 12\.4 and the driver is for CUDA 11\.0.*--force"):
        noted_in_container(IN_CONTAINER, CUDA_12)
    with pytest.raises(Refused, match="bfloat16"):
        noted_in_container(replace(IN_CONTAINER, command=BF16.command), UNKNOWN)
    newer = replace(OLD, driver_version="550.54.15", cuda_version=(12, 4))
    assert noted_in_container(IN_CONTAINER, CUDA_12, newer) == ()
    assert SubmissionPreflight(EligibleNodes()).overrides(
        View().advance([NodeObserved(OLD)]), replace(IN_CONTAINER, force=True), ALICE, FileFindings(image=CUDA_12)
    )


def test_an_image_that_is_not_known_is_told_unless_the_user_says_what_it_needs() -> None:
    (note,) = noted_in_container(IN_CONTAINER, UNKNOWN)
    assert note.startswith("preflight: what image train:1 needs is not known (it is in no registry)")
    stated = replace(IN_CONTAINER, request=Request(min_cuda=(11, 0)))
    assert noted_in_container(stated, UNKNOWN) == ()
    assert noted_in_container(replace(IN_CONTAINER, request=Request(devices=0)), UNKNOWN) == ()


def test_where_the_site_lists_no_registry_only_a_dry_run_tells_of_unknown_images() -> None:
    unlisted, view = FileFindings(image=replace(UNKNOWN, failed=False)), View().advance([NodeObserved(OLD)])
    preflight = SubmissionPreflight(EligibleNodes())
    assert preflight.notes(view, IN_CONTAINER, ALICE, unlisted) == ()
    assert len(preflight.notes(view, IN_CONTAINER, ALICE, unlisted, all_told=True)) == 1


def test_a_container_of_which_nothing_is_known_costs_no_look_at_the_devices() -> None:
    def eligible(view: View, submission: Submission, user: str) -> tuple[str, ...]:
        raise AssertionError("the devices were looked at")

    preflight = SubmissionPreflight(eligible)  # type: ignore[arg-type]
    view = View().advance([NodeObserved(OLD)])
    assert preflight.notes(view, IN_CONTAINER, ALICE, FileFindings(image=replace(UNKNOWN, failed=False))) == ()
