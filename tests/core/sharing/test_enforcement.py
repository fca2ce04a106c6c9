"""What stands behind a placement follows from the view alone."""

from dataclasses import replace

import pytest

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import ClientLimits, Enforcement, HostMeans, Level, Means
from corral.core.model.fact import NodeObserved
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Job, JobKind, JobSpec
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.view import View
from corral.core.sharing.enforcement import enforcement

HELD = HostMeans(cpus=Level.ENFORCED, memory=Level.ENFORCED, unfenced=None)
ADVISORY = (Level.ADVISORY, Level.ADVISORY)
JOB = Job("1", 1, JobSpec("alice", ("true",)), 0.0)
MPS, TURNS = (
    Device(f"GPU-{means}", index, "NVIDIA A100", 81920, means=means)
    for index, means in enumerate((Means.MPS, Means.TIMESLICE))
)
LESS = "it has less than one of 4 equal slots"
SLOTS = replace(MPS, uuid="GPU-slots", clients=ClientLimits(4))
LOOSE = replace(MPS, uuid="GPU-loose", clients=ClientLimits(4, "a job can leave MPS: so it is"))
HOOK = replace(MPS, uuid="GPU-hook", means=Means.HOOK)
SLICE = Device("MIG-1", 2, "NVIDIA A100", 9728, means=Means.MIG, mig_profile="1g.10gb", parent_uuid="GPU-x")
WHOLE = Device("GPU-whole", 0, "NVIDIA A100", 81920)
VIEW = View().advance(
    [
        NodeObserved(Node("held", (MPS, TURNS, SLICE, SLOTS, LOOSE, HOOK), 8000, 32768, host_means=HELD)),
        NodeObserved(Node("loose", (WHOLE,), 8000, 32768, host_means=HostMeans(unfenced="nobody fences here"))),
    ]
)


def on(*grants: Grant, node: str = "held", cpu_milli: int = 0, host_memory_mib: int = 0) -> Member:
    return Member(node, grants, cpu_milli, host_memory_mib)


def test_who_has_a_device_whole_has_it_exclusively_whatever_its_means() -> None:
    assert MPS.held_by(1000) is Means.EXCLUSIVE
    assert MPS.held_by(500) is Means.MPS
    assert SLICE.held_by(1000) is Means.MIG


@pytest.mark.parametrize(
    ("member", "found"),
    [
        (on(Grant("GPU-mps", 500)), Enforcement(Level.ENFORCED, Level.ENFORCED)),
        (on(Grant("GPU-timeslice", 500)), Enforcement(Level.GUARDED, Level.ADVISORY)),
        (on(Grant("GPU-mps", 500), Grant("GPU-timeslice", 500)), Enforcement(Level.GUARDED, Level.ADVISORY)),
        (on(Grant("GPU-slots", 250, 20480)), Enforcement(Level.ENFORCED, Level.ENFORCED)),
        (on(Grant("GPU-slots", 250, 1024)), Enforcement(Level.ADVISORY, Level.ENFORCED, reason=LESS)),
        (on(Grant("GPU-slots", 100, 20480)), Enforcement(Level.ENFORCED, Level.ADVISORY, reason=LESS)),
        (on(Grant("GPU-hook", 500)), Enforcement(Level.HOOK, Level.HOOK)),
        (on(Grant("GPU-hook", 500), Grant("GPU-timeslice", 500)), Enforcement(Level.HOOK, Level.ADVISORY)),
        (on(Grant("GPU-loose", 250, 20480)), Enforcement(*ADVISORY, reason="a job can leave MPS: so it is")),
        (on(Grant("GPU-timeslice", 1000)), Enforcement(Level.ENFORCED, Level.ENFORCED)),
        (on(Grant("MIG-1", 1000)), Enforcement(Level.ENFORCED, Level.ENFORCED)),
        (on(cpu_milli=1000), Enforcement(cpus=Level.ENFORCED)),
        (on(host_memory_mib=1024), Enforcement(host_memory=Level.ENFORCED)),
        (on(), None),
        (on(Grant("GPU-gone", 500)), None),
    ],
)
def test_the_weakest_device_says_what_stands_behind_a_placement(member: Member, found: Enforcement | None) -> None:
    assert enforcement(JOB, Placement((member,)), VIEW) == found


def test_a_gang_is_held_to_what_its_weakest_node_holds_it_to() -> None:
    gang = Placement((on(cpu_milli=1000), on(node="loose", cpu_milli=1000)))
    assert enforcement(JOB, gang, VIEW) == Enforcement(cpus=Level.ADVISORY)


def of_job(**terms: object) -> Job:
    return replace(JOB, spec=replace(JOB.spec, **terms))  # type: ignore[arg-type]


def test_work_that_corral_does_not_start_is_held_to_nothing_of_the_host() -> None:
    adopted = of_job(kind=JobKind.ADOPT)
    assert enforcement(adopted, Placement((on(cpu_milli=1000),)), VIEW) == Enforcement(cpus=Level.ADVISORY)
    whole = enforcement(adopted, Placement((on(Grant("GPU-timeslice", 1000)),)), VIEW)
    assert whole == Enforcement(*ADVISORY, reason="no fence: its processes are not started by Corral")


def test_without_a_fence_a_whole_device_and_a_slice_are_only_advised_and_the_reason_is_told() -> None:
    whole = Placement((on(Grant("GPU-whole", 1000), node="loose"),))
    told = Enforcement(*ADVISORY, reason="no fence: nobody fences here")
    assert enforcement(JOB, whole, VIEW) == told
    gang = Placement((on(Grant("MIG-1", 1000)), *whole.members))
    assert enforcement(JOB, gang, VIEW) == told


def test_root_leaves_a_fence_and_nobody_leaves_a_container_or_a_pod() -> None:
    fenced, loose = (
        Placement((member,)) for member in (on(Grant("MIG-1", 1000)), on(Grant("GPU-whole", 1000), node="loose"))
    )
    told = enforcement(of_job(uid=0), fenced, VIEW)
    assert told == Enforcement(*ADVISORY, reason="no fence: it runs as root, who can leave its cgroup")
    assert enforcement(of_job(uid=1), fenced, VIEW) == Enforcement(Level.ENFORCED, Level.ENFORCED)
    for uid in (0, 1):
        inside = of_job(uid=uid, container=Container(image="train"))
        assert enforcement(inside, loose, VIEW) == Enforcement(Level.ENFORCED, Level.ENFORCED)
