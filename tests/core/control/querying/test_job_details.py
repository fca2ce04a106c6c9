"""Everything about one job: what it has or had, how each member stands, and its attempts, also after restarts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.control.querying.job_details import JobDetails, granted_devices, monitored_devices
from corral.core.control.querying.listing_rows import job_row
from corral.core.ledger.store import open_ledger
from corral.core.lifecycle import starting
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.answers.gpu_monitoring import GpuMonitoring, GpuStats
from corral.core.model.answers.job_details import GrantedDevice
from corral.core.model.fact import NodeObserved
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, ChosenDevice, GpuInfo, Grant, Member, Placement
from corral.core.model.runs.attempt import AttemptEnd
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.host.runtimes.simulated import SimulatedRuntime
from tests.core.control.cluster import Cluster, on, until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, "a", "b")
    yield cluster
    cluster.close()


def details(cluster: Cluster, container: Container | None = None) -> JobDetails:
    def find(job_id: str) -> Job:
        job = cluster.job(int(job_id))
        return replace(job, spec=replace(job.spec, container=container))

    return JobDetails(
        cluster.ledger,
        cluster.clock,
        find=find,
        row=lambda job: job_row(job, None, None),
        waited=lambda job: job.waited,
        live=cluster.dispatcher.attempts.of,
        log_path=lambda node, job_id, rank: f"/{node}/{job_id}.{rank}",
        monitoring=lambda job, allocation, devices: GpuMonitoring(
            float(allocation.attempt), len(devices), {one.label: GpuStats(one.name) for one in devices}
        ),
        use=lambda job_id: None,
    )


def runtime(cluster: Cluster, node: str) -> SimulatedRuntime:
    return cluster.nodes[node].runtime


def test_a_job_tells_what_it_has_and_had_and_not_its_environment(cluster: Cluster) -> None:
    cluster.run(1, on("a", 1, 2))
    told = details(cluster).of("1")
    grants = tuple(GrantedDevice(f"a-{index}", index, "a", name="GPU") for index in (1, 2))
    assert (told.phase, told.grant, told.needs) == (Phase.RUNNING, grants, "2 GPUs")
    assert [(one.attempt, one.node, one.ended_as, one.log) for one in told.history] == [(1, "a", None, "/a/1.0")]
    assert "env" not in told.spec
    runtime(cluster, "a").finish("1.1", exit_code=3)
    until(lambda: cluster.phase(1) is Phase.FAILED)
    told = details(cluster).of("1")
    assert (told.grant, [(one.ended_as, one.exit_code) for one in told.history]) == (grants, [(AttemptEnd.FAILED, 3)])
    assert [(one.phase, one.exit_code, one.devices) for one in told.members] == [(Phase.FAILED, 3, ("a-1", "a-2"))]


def test_a_job_tells_its_image_and_not_what_its_pod_template_may_hide(cluster: Cluster) -> None:
    cluster.run(1, on("a", 1))
    asked = Container("repo/train:1", pod_template='{"spec": {}}')
    assert details(cluster, asked).of("1").spec["container"] == {
        "image": "repo/train:1",
        "volumes": [],
        "service_account": None,
        "shm_size_mib": None,
        "network": None,
        "user": None,
        "pull": None,
    }


def test_each_member_of_a_gang_tells_how_it_stands_and_after_a_restart_how_it_ended(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 3))
    runtime(cluster, "a").finish("1.1")
    until(lambda: cluster.dispatcher.attempts.of("1.1").is_over(0))  # type: ignore[union-attr]
    told = details(cluster).of("1")
    assert [(one.rank, one.node, one.phase, one.exit_code) for one in told.members] == [
        (0, "a", Phase.SUCCEEDED, 0),
        (1, "b", Phase.RUNNING, None),
    ]
    runtime(cluster, "b").finish("1.1-1", exit_code=7)
    until(lambda: cluster.phase(1) is Phase.FAILED)
    cluster.stop()
    cluster.ledger.close()
    cluster.ledger = open_ledger(cluster.url)
    cluster.start()
    told = details(cluster).of("1")
    assert [(one.phase, one.exit_code, one.log) for one in told.members] == [
        (Phase.SUCCEEDED, 0, "/a/1.0"),
        (Phase.FAILED, 7, "/b/1.1"),
    ]
    assert [(one.nodes, one.reason) for one in told.history] == [
        (("a", "b"), "failed with exit code 7: rank 1 on b exited with 7")
    ]


def test_what_was_measured_is_told_by_the_index_of_each_gpu_and_on_several_nodes_with_the_node(
    cluster: Cluster,
) -> None:
    cluster.run(1, on("a", 2, 1))
    cluster.run(2, on("a", 0), on("b", 0))
    first, second = (details(cluster).of(job_id).gpu_monitoring for job_id in ("1", "2"))
    assert first is not None
    assert second is not None
    assert dict(first.gpu_stats) == {"2": GpuStats("GPU"), "1": GpuStats("GPU")}
    assert list(second.gpu_stats) == ["a:0", "b:0"]


def test_gpus_are_told_once_and_those_without_an_index_by_their_uuid() -> None:
    grants = (Grant("gone", 500), Grant("gone", 250), Grant("lost", 1000))
    allocation = Allocation("1.1", "1", "alice", Placement((Member("a", grants),)), 0.0)
    assert [one.label for one in monitored_devices(View(), allocation)] == ["gone", "lost"]


def test_a_job_that_waits_again_has_nothing_and_tells_of_the_attempt_before(cluster: Cluster) -> None:
    cluster.commit(1, on("a", 0))

    def failed(view: View) -> Decided[None]:
        step = starting.launch_failed(view, view.jobs["1"], "no room", by="test", at=5.0, backoff=Backoff())
        return Decided(tuple(step), None)

    cluster.ledger.commit(failed).result()
    told = details(cluster).of("1")
    assert (told.phase, told.grant, told.members) == (Phase.PENDING, (), ())
    assert [(one.ended_as, one.reason) for one in told.history] == [(AttemptEnd.NOT_LAUNCHED, "not launched: no room")]


def test_a_device_that_is_gone_is_told_as_it_was_chosen() -> None:
    placement = Placement((Member("a", (Grant("gone", 500, 40_960),)),))
    info = GpuInfo(1, (3,), "pack", (ChosenDevice(3, "NVIDIA A100", None, None, 1.0),))
    (told,) = granted_devices(View(), Allocation("1.1", "1", "alice", placement, 0.0, gpu_info=info))
    assert told == GrantedDevice("gone", 3, "a", 0, 500, 40_960, "NVIDIA A100")


def test_a_running_job_tells_the_numa_nodes_that_it_is_bound_to(cluster: Cluster) -> None:
    node = cluster.ledger.view().nodes["a"]
    near = tuple(replace(device, numa_node=1) for device in node.devices)
    seen = replace(node, devices=near, numa_cpus=((0, (0, 1)), (1, (2, 3, 6))))
    cluster.ledger.observe([NodeObserved(seen)])
    cluster.run(1, on("a", 1))
    until(lambda: cluster.ledger.view().nodes["a"] == seen)
    (member,) = details(cluster).of("1").members
    assert (member.numa_nodes, member.numa_cpus) == ((1,), "2-3,6")
    runtime(cluster, "a").finish("1.1")
    until(lambda: cluster.phase(1) is Phase.SUCCEEDED)
    (member,) = details(cluster).of("1").members
    assert (member.numa_nodes, member.numa_cpus) == ((), "")
