"""What is left of quotas: just as much as admission lets one more job have."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.fact import Delta, SiteArranged
from corral.core.model.jobs.job import Job
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.runs.run_history import PastRun
from corral.core.model.units import SHARE_QUANTUM_MILLI
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.queueing.admission import Admission
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted

MIB = 40_961
"""Of each device; odd, so that parts of it are rounded."""

QUOTAS = st.builds(
    Quota,
    devices=st.sampled_from([None, None, 0, 3, 5]),
    share_milli=st.sampled_from([None, 0, 500, 2000, 3330, 5000]),
    memory_mib=st.sampled_from([None, None, MIB, 100_000, 130_001]),
    running=st.sampled_from([None, None, None, 2]),
    borrow_milli=st.sampled_from([None, 1000, 4000]),
)
WORK: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "milli": st.integers(1, 300).map(lambda quanta: quanta * SHARE_QUANTUM_MILLI),
        "user": st.sampled_from(["alice", "bob"]),
        "project": st.sampled_from(["default", "ours"]),
        "queue": st.sampled_from(["day", "night", "default"]),
    }
)


def wanting(number: int, milli: int, **options: Any) -> Job:
    """A job of so many milli-GPU: of whole GPUs, or of a share that may be split."""
    if milli % 1000 == 0:
        return job(number, milli // 1000, **options)
    return job(number, 1, share_milli=min(1000, milli), split_milli=milli, **options)


@st.composite
def admissions(draw: st.DrawFn) -> Admission:
    """Jobs that run, and quotas that may have been set since they started."""
    past = [PastRun("alice", "ours", "day", (), 2.0, T0 - 3600, T0)] if draw(st.booleans()) else []
    planner = Planner(View().remembering(past))
    planner.advance(observed(*(box(name, 4, memory_mib=MIB) for name in "ab")))
    work = draw(st.lists(WORK, max_size=5))
    planner.advance(submitted(*(wanting(number, **wish) for number, wish in enumerate(work, start=1))))
    for start in planner.plan(T0).starts:
        wish = work[int(start.job_id) - 1]
        planner.advance(started(start, user=wish["user"]))
    hours = draw(st.sampled_from([None, 1.0]))
    of_project = Quota(running=draw(st.sampled_from([None, 1])), gpu_hours=hours, period_s=86_400.0)
    arranged: Delta = SiteArranged(
        queues=(
            Queue("default"),
            Queue("lab", quota=draw(QUOTAS)),
            Queue("day", parent="lab", quota=draw(QUOTAS)),
            Queue("night", parent="lab", quota=draw(QUOTAS)),
        ),
        projects=(Project("ours", quota=of_project),),
        limits=Limits(of_user=draw(QUOTAS)),
    )
    planner.advance([arranged])
    return planner.admission(T0)


@settings(max_examples=300)
@given(admissions(), WORK)
def test_a_job_of_what_is_left_is_admitted_and_one_of_more_is_not(admission: Admission, who: dict[str, Any]) -> None:
    who = {key: value for key, value in who.items() if key != "milli"}
    left_milli = admission.left_milli(**who)
    if left_milli is None:
        assert admission.barrier(wanting(99, 1_000_000, **who)) is None
        return
    assert left_milli >= 0
    assert left_milli % SHARE_QUANTUM_MILLI == 0
    if left_milli:
        assert admission.barrier(wanting(99, left_milli, **who)) is None
    assert admission.barrier(wanting(99, left_milli + SHARE_QUANTUM_MILLI, **who)) is not None


def test_what_a_queue_may_borrow_now_is_left_to_it() -> None:
    quota = Quota(share_milli=2000, borrow_milli=4000)
    view = View().advance([*observed(box(gpus=8)), *submitted(job(1, 1, queue="night"))])
    queues = (Queue("lab"), Queue("day", parent="lab", quota=quota), Queue("night", parent="lab", quota=quota))
    planner = Planner(view.advance([SiteArranged(queues=queues)]))
    planner.advance(started(planner.plan(T0).starts[0]))
    admission = planner.admission(T0)
    left = {name: admission.left_milli(user="bob", project="default", queue=name) for name in ("lab", "day", "night")}
    assert left == {"lab": None, "day": 3000, "night": 3000}
