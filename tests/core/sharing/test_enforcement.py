"""What stands behind a placement follows from the view alone."""

from dataclasses import replace

import pytest

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Enforcement, HostMeans, Level, Means
from corral.core.model.fact import NodeObserved
from corral.core.model.jobs.job import Job, JobKind, JobSpec
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.view import View
from corral.core.sharing.enforcement import enforcement

HELD = HostMeans(cpus=Level.ENFORCED, memory=Level.ENFORCED)
JOB = Job("1", 1, JobSpec("alice", ("true",)), 0.0)
MPS, TURNS = (
    Device(f"GPU-{means}", index, "NVIDIA A100", 81920, means=means)
    for index, means in enumerate((Means.MPS, Means.TIMESLICE))
)
SLICE = Device("MIG-1", 2, "NVIDIA A100", 9728, means=Means.MIG, mig_profile="1g.10gb", parent_uuid="GPU-x")
VIEW = View().advance(
    [
        NodeObserved(Node("held", (MPS, TURNS, SLICE), 8000, 32768, host_means=HELD)),
        NodeObserved(Node("loose", (), 8000, 32768)),
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


def test_work_that_corral_does_not_start_is_held_to_nothing_of_the_host() -> None:
    adopted = replace(JOB, spec=replace(JOB.spec, kind=JobKind.ADOPT))
    assert enforcement(adopted, Placement((on(cpu_milli=1000),)), VIEW) == Enforcement(cpus=Level.ADVISORY)
