"""A small cluster and jobs for the tests of this room."""

from corral.core.lifecycle import starting
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.fact import ConditionObserved, Fact, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.view import View


def box(gpus: int = 4) -> View:
    """One node with so many idle devices, GPU-0 and on."""
    devices = tuple(Device(f"GPU-{i}", i, "NVIDIA A100-SXM4-80GB", 81920) for i in range(gpus))
    node = Node("box", devices, cpu_milli=16000, memory_mib=65536)
    idle = [DeviceCondition(d.uuid, memory_free_mib=81920, utilization_pct=0) for d in devices]
    return View().advance([NodeObserved(node), *(ConditionObserved(condition) for condition in idle)])


def job(number: int, *, gpus: int = 1, user: str = "alice", after: tuple[str, ...] = (), retries: int = 0) -> Job:
    """A waiting job with this number."""
    spec = JobSpec(user, ("true",), request=Request(devices=gpus), retries=retries, after=after)
    return Job(str(number), number, spec, submitted_at=100.0, waits_for=after)


def with_jobs(view: View, *jobs: Job) -> View:
    """The view after these jobs were submitted."""
    return view.advance([JobSubmitted(each, at=100.0, by="alice") for each in jobs])


def running(view: View, *numbers: int) -> list[Fact]:
    """What makes jobs of these numbers run in a view, each on the GPU of its number less one."""
    facts: list[Fact] = []
    for number in numbers:
        waiting = job(number)
        placement = Placement((Member("box", (Grant(f"GPU-{number - 1}", 1000),)),))
        submitted: list[Fact] = [JobSubmitted(waiting, at=100.0, by="alice")]
        view = view.advance(submitted)
        start = starting.start(waiting, placement, by="alice", at=101.0)
        view = view.advance(start)
        facts += [*submitted, *start, *starting.running(view, view.jobs[str(number)], 102.0, by="alice", at=102.0)]
    return facts
