"""What the book of nodes knows of devices of which parts are given."""

from dataclasses import replace

from corral.clock import SystemClock
from corral.core.model.runs.launch import Launch
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.engine.node_book import NodeBook
from tests.engines.kubernetes.pods.launches import launch_of
from tests.engines.kubernetes.shares.test_served_shares import HALF, MANAGER, pod


def half(number: int, slot: int = 0) -> Launch:
    (use,) = launch_of(number, gpus=1, node="g1").uses
    grant = replace(use.newcomer.grant, uuid=f"g1.gpu-{slot}", share_milli=500, memory_mib=40960)
    use = replace(use, device=replace(use.device, uuid=f"g1.gpu-{slot}"), newcomer=replace(use.newcomer, grant=grant))
    return replace(launch_of(number, node="g1"), uses=(use,))


def test_a_device_of_which_another_scheduler_has_just_taken_too_much_is_overbooked() -> None:
    book = NodeBook(SystemClock())
    book.nodes_changed([Change(None, MANAGER)])
    book.hold(half(1), ("ml", "a"))
    assert book.overbooked("g1") == 0
    book.hold(half(2), ("ml", "b"))
    assert book.overbooked("g1") == 0
    beside = pod("x", HALF, **{"tencent.com/predicate-gpu-idx-0": "1"})
    book.occupants_changed([Change(None, beside)])
    assert book.overbooked("g1") == 0
    book.note_ahead("g1", [pod("y", HALF, **{"tencent.com/predicate-gpu-idx-0": "0"})])
    assert book.overbooked("g1") == 1


def test_the_pod_of_a_job_is_no_part_of_others() -> None:
    book = NodeBook(SystemClock())
    book.nodes_changed([Change(None, MANAGER)])
    book.hold(half(1), ("team", "a"))
    book.occupants_changed([Change(None, pod("a", HALF, **{"tencent.com/predicate-gpu-idx-0": "0"}))])
    seen = book.see("g1")
    assert seen is not None
    assert [one.parts for one in seen.samples] == [(), ()]


def test_the_devices_of_a_launch_are_told_by_their_numbers_with_what_it_gets_of_them() -> None:
    book = NodeBook(SystemClock())
    book.nodes_changed([Change(None, MANAGER)])
    (part,) = book.placed(half(1, slot=1)).parts
    assert (part.number, part.uuid, part.share_milli, part.memory_mib) == (1, None, 500, 40960)


def test_a_node_says_why_it_gives_no_parts() -> None:
    label = "nvidia-device-enable"
    book = NodeBook(SystemClock(), means_label=label)
    book.nodes_changed([Change(None, replace(MANAGER, labels={**MANAGER.labels, label: "pgpu"}))])
    seen = book.see("g1")
    assert seen is not None
    assert seen.node.kept_to == f"its label {label}=pgpu keeps it to whole GPUs"
    two = replace(MANAGER.allocatable, others={**MANAGER.allocatable.others, "nvidia.com/gpu": 2})
    book.nodes_changed([Change(MANAGER, replace(MANAGER, allocatable=two))])
    seen = book.see("g1")
    assert seen is not None
    assert seen.node.kept_to is not None
    assert seen.node.kept_to.startswith("it offers the same GPUs by ")
    assert "nvidia.com/gpu" in seen.node.kept_to
    book.nodes_changed([Change(MANAGER, MANAGER)])
    seen = book.see("g1")
    assert seen is not None
    assert seen.node.kept_to is None
