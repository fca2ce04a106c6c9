"""Which pods a server takes for bound by itself."""

from typing import Any

from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.bound_mark import BoundMarks
from corral.engines.kubernetes.binding.pods_of_others import BOUND_FOR, PodOfOthers, read

REF = PodRef("team", "one", "uid-1")


def pod(mark: str | None, *, uid: str = "uid-1", node: str | None = "n1") -> PodOfOthers:
    metadata: dict[str, Any] = {"namespace": "team", "name": "one", "uid": uid}
    if mark is not None:
        metadata["annotations"] = {BOUND_FOR: mark}
    return read({"metadata": metadata, "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Pending"}})


def marks(tag: str = "aaaa") -> BoundMarks:
    return BoundMarks(tag, lambda launch_id: REF if launch_id == "1.1" else None)


def test_what_a_server_writes_it_knows_again_and_no_other_server_does() -> None:
    (mark,) = marks("aaaa").of("1.1").values()
    assert marks("aaaa").launch_of(pod(mark)) == "1.1"
    assert marks("bbbb").launch_of(pod(mark)) is None


def test_a_mark_counts_on_the_pod_of_its_launch_alone_and_only_once_it_is_bound() -> None:
    assert marks().launch_of(pod("aaaa/1.1", uid="uid-2")) is None
    assert marks().launch_of(pod("aaaa/2.1")) is None
    assert marks().launch_of(pod("aaaa/1.1", node=None)) is None


def test_a_mark_without_a_tag_counts_for_pods_that_an_earlier_process_may_have_bound() -> None:
    fresh, upgraded = marks(), marks()
    upgraded.note_bound_before([REF])
    assert fresh.launch_of(pod("1.1")) is None
    assert upgraded.launch_of(pod("1.1")) == "1.1"
    assert upgraded.launch_of(pod("1.1", uid="uid-2")) is None


def test_a_binding_that_came_after_its_launch_was_given_up_counts_for_the_present_launch() -> None:
    late = BoundMarks("aaaa", lambda launch_id: REF, lambda launch_id: "1.2")
    assert late.launch_of(pod("aaaa/1.1")) == "1.2"


def test_marks_that_anybody_wrote_are_nobodys() -> None:
    for mark in (None, "", "/", "/1.1", "aaaa/", "aaaa", "aaaa//1.1", "aaaa/1.1/", "bbbb/aaaa/1.1", "\x00/1.1"):
        assert marks().launch_of(pod(mark)) is None
