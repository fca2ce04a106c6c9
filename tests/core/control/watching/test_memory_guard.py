"""Which memory is guarded: what nothing else holds a job to."""

from dataclasses import replace

from corral.core.control.watching.memory_guard import guarded
from corral.core.model.devices.means import Enforcement, Level, Means
from corral.core.model.fact import AllocationMade, NodeObserved
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View
from tests.core.control.strategies import box


def holding(view: View, memory: Level) -> View:
    """The view with job 9 on half of GPU-0, held to its memory by that."""
    placement = Placement((Member("box", (Grant("GPU-0", 500, 40960),)),))
    enforcement = Enforcement(memory, Level.ADVISORY)
    made = Allocation("9.1", "9", "bob", placement, 0.0, enforcement=enforcement)
    return view.advance([AllocationMade(made, at=0.0, by="bob")])


def test_memory_that_nothing_else_enforces_is_guarded() -> None:
    bounds = guarded(holding(box(), Level.GUARDED))
    assert [(bound.job_id, bound.uuid, bound.limit_mib) for bound in bounds] == [("9", "GPU-0", 40960)]


def test_memory_that_a_driver_enforces_is_not_guarded() -> None:
    assert guarded(holding(box(), Level.ENFORCED)) == []


def test_a_time_slice_is_guarded_also_if_the_job_is_not_held_to_another_gpu() -> None:
    assert [bound.uuid for bound in guarded(holding(box(), Level.ADVISORY))] == ["GPU-0"]


def shared_by(means: Means) -> View:
    node = box().nodes["box"]
    return box().advance(
        [NodeObserved(replace(node, devices=tuple(replace(one, means=means) for one in node.devices)))]
    )


def test_what_is_advisory_by_its_means_is_not_guarded() -> None:
    assert guarded(holding(shared_by(Means.MPS), Level.ADVISORY)) == []


def test_a_share_under_a_hook_is_guarded_besides() -> None:
    assert [bound.uuid for bound in guarded(holding(shared_by(Means.HOOK), Level.HOOK))] == ["GPU-0"]
