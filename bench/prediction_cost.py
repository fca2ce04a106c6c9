"""What predictions cost: at a submission, at the end of a job, and in memory for users who mean harm."""

import tracemalloc
from collections.abc import Callable, Sequence
from time import perf_counter

from corral.core.control.querying.predictions import Predictions
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.fact import AllocationMade, ConditionObserved, JobChanged, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.prediction import GROUPS_KEPT, USERS_KEPT, PastValues, groups_of, remember
from corral.core.model.view import View
from corral.core.ports.monitoring import UseOfAlike
from corral.core.scheduling.planner import Planner

COMMAND = ("python", "train.py", "--config", "large.yaml", "--seed")


def main() -> None:
    past: dict[str, PastValues] = {}
    specs = [JobSpec("alice", (*COMMAND, str(seed)), name="train.py") for seed in range(2000)]
    print(f"a job that ended is learned in {_us(lambda spec: remember(past, 'alice', groups_of(spec), 1.0), specs)}")
    told = _us(lambda spec: past["alice"].predict(groups_of(spec)), specs)
    long = [JobSpec("alice", ("x" * 1_000_000, str(n))) for n in range(20)]
    print(f"a prediction takes {told}, with a word of a million characters {_us(groups_of, long)}")
    print(f"a submission on a host of 8 GPUs that waits, with an offer: {_offer(8)}")
    tracemalloc.start()
    for user in range(USERS_KEPT):
        for number in range(GROUPS_KEPT):
            word = f"{user} {number}" + "x" * 300
            remember(past, str(user), groups_of(JobSpec(str(user), (word,), name=word)), float(number))
    held_mib = tracemalloc.get_traced_memory()[0] / 2**20
    print(f"{USERS_KEPT} users, each with as many groups as are kept: {held_mib:.0f} MiB")
    tracemalloc.stop()


def _us(call: Callable[[JobSpec], object], some: Sequence[JobSpec]) -> str:
    began = perf_counter()
    for one in some:
        call(one)
    return f"{(perf_counter() - began) / len(some) * 1e6:.1f} us"


def _offer(gpus: int) -> str:
    """The median time of the offer; each GPU has a job with half of it."""
    devices = tuple(Device(f"GPU-{i}", i, "NVIDIA A100-SXM4-80GB", 81_920) for i in range(gpus))
    read = [ConditionObserved(DeviceCondition(d.uuid, memory_free_mib=81_920, utilization_pct=0)) for d in devices]
    view = View().advance([NodeObserved(Node("box", devices, 64_000, 512 * 1024)), *read])
    half = Request(share_milli=500, memory_mib=40_960)
    for number, uuid in enumerate(view.conditions):
        job = Job(str(number), number, JobSpec("bob", ("x",), name="x", request=half), 0.0)
        placement = Placement((Member("box", (Grant(uuid, 500, 40_960),)),))
        made = AllocationMade(Allocation(f"{number}.1", job.id, "bob", placement, 0.0), at=0.0, by="bench")
        patch: JobPatch = {"phase": Phase.RUNNING, "allocation_id": f"{number}.1", "started_at": 0.0}
        ran = JobChanged(job.id, patch, at=0.0, by="bench")
        view = view.advance([JobSubmitted(job, at=0.0, by="bob"), made, ran])
    asks = Job("2000", 2000, JobSpec("alice", COMMAND, name="train.py"), 1.0)
    view = view.advance([JobSubmitted(asks, at=1.0, by="alice")])
    past = PastValues()
    for _ in range(9):
        past = past.plus(groups_of(asks.spec), 30_000.0)
    predictions = Predictions(lambda spec: UseOfAlike(past.predict(groups_of(spec))), Planner)
    times = []
    for _ in range(21):
        began = perf_counter()
        notes = predictions.notes(view, asks, 2.0)
        times.append(perf_counter() - began)
    return f"{sorted(times)[10] * 1000:.2f} ms, {len(notes)} offered"


if __name__ == "__main__":
    main()
