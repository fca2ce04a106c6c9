"""A process on a device belongs to the pod in whose cgroup it is, whatever driver the kubelet has."""

import pytest

from corral.core.model.devices.device import ContainerOfOthers, DeviceProcess, DeviceSample, HoldingPod
from corral.engines.kubernetes.agent_reports.process_pods import name_pods, place_in
from corral.engines.kubernetes.cluster.pod_facts import read_requests
from corral.engines.kubernetes.inventory.occupants import Occupant, PodContainer

NOTHING = read_requests({}, "a pod")[0]
UID = "8c6c3e1f-2a3b-4c5d-9e8f-001122334455"
OTHER = "ffffffff-2a3b-4c5d-9e8f-001122334455"
ID = "0123456789abcdef" * 4
UNDER = UID.replace("-", "_")


@pytest.mark.parametrize(
    "cgroup",
    [
        f"/kubepods/pod{UID}/{ID}",
        f"/kubepods/burstable/pod{UID}/{ID}",
        f"/kubepods/besteffort/pod{UID}/{ID}/init",
        f"/kubepods.slice/kubepods-pod{UNDER}.slice/docker-{ID}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDER}.slice/crio-{ID}.scope/container",
        f"/../../kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"/../../pod{UID}/{ID}",
        f"/system.slice/containerd.service/kubepods-burstable-pod{UNDER}.slice:cri-containerd:{ID}",
        # Docker within a container: the pod's container is the outer one.
        f"/kubepods/burstable/pod{UID}/{ID}/docker/{'f' * 64}",
        # A container that makes groups with the names of others' pods.
        f"/kubepods/burstable/pod{UID}/{ID}/kubepods/pod{OTHER}/{'f' * 64}",
    ],
)
def test_the_cgroup_of_a_process_names_its_pod_and_container(cgroup: str) -> None:
    assert place_in(cgroup) == (UID, ID)


@pytest.mark.parametrize(
    "cgroup",
    [
        "",
        "/",
        f"/docker/{ID}",
        f"/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}/{ID}",
        f"/kubepods/pod{UID}x/{ID}",
        "/kubepods/pod/" + ID,
    ],
)
def test_what_is_in_no_pod_is_none_of_one(cgroup: str) -> None:
    assert place_in(cgroup) is None


def test_the_group_of_a_pod_itself_has_no_container() -> None:
    assert place_in(f"/kubepods/burstable/pod{UID}") == (UID, None)


def test_processes_have_the_names_of_pods_on_their_node_alone() -> None:
    here = Occupant(
        UID, "gpu-01", HoldingPod("team", "train-0"), NOTHING, (), containers=(PodContainer(ID, "main", "train:1"),)
    )
    elsewhere = Occupant(OTHER, "gpu-02", HoldingPod("team", "victim"), NOTHING, ())
    pods = {UID: here, OTHER: elsewhere}
    processes = (
        DeviceProcess(1, cgroup=f"/kubepods/pod{UID}/{ID}"),
        DeviceProcess(2, cgroup=f"/kubepods/pod{UID}/{'f' * 64}"),
        DeviceProcess(3, cgroup=f"/kubepods/pod{OTHER}/{ID}", runs_in=ContainerOfOthers("made-up", "x")),
        DeviceProcess(4, cgroup="/init.scope"),
        DeviceProcess(5),
    )
    (sample, unread), by_pid = name_pods(
        (DeviceSample("GPU-1", 1.0, processes=processes), DeviceSample("GPU-2", 1.0)), "gpu-01", pods.get
    )
    assert by_pid == {1: ("team", "train-0"), 2: ("team", "train-0")}
    assert [process.owner for process in sample.processes or ()] == [
        "container team/train-0/main (train:1)",
        "container team/train-0 ()",
        None,
        None,
        None,
    ]
    assert unread.processes is None
