"""Whether a planned start still fits."""

from corral.core.model.fact import DeviceCordoned
from corral.core.model.placing.fit import Cause
from corral.core.scheduling.placing.gpu_info import gpu_info
from corral.core.scheduling.placing.start_recheck import verify
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, idle, job, observed, started, submitted, view_of

HERE = view_of(observed(box()))


def test_a_start_is_tested_again_with_the_same_test() -> None:
    view = HERE.advance(submitted(job(1, 2), job(2, 8)))
    start = Planner(view).plan(T0).starts[0]
    assert verify(view, start) is None
    cordoned = view.advance([DeviceCordoned(start.placement.uuids[0], "fan", by="root", at=T0)])
    misfit = verify(cordoned, start)
    assert misfit is not None
    assert (misfit.cause, misfit.available) == (Cause.CORDONED, 1)
    taken = view.advance(started(start))
    assert verify(taken, start) is not None


def test_the_record_of_a_choice_has_the_numbers_of_its_moment() -> None:
    node = box(gpus=2)
    deltas = observed(node)
    deltas.append(idle(node.devices[0], utilization_pct=50, memory_free_mib=40_960))
    view = view_of(deltas + submitted(job(1, 1)))
    info = gpu_info(view, Planner(view).plan(T0).starts[0])
    assert (info.count, info.indices, info.allocation_method) == (1, (1,), "corral")
    assert info.details[0].availability_score == 1.0
