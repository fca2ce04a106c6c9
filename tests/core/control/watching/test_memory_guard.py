"""Which memory is guarded: what nothing else holds a job to."""

from corral.core.control.watching.memory_guard import guarded
from corral.core.model.devices.means import Enforcement, Level
from corral.core.model.fact import AllocationMade
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
