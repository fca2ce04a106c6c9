from dataclasses import replace

import pytest

from corral.core.model.devices.device import Device
from corral.core.model.errors import Refused
from corral.core.model.jobs.container import Container, Volume, VolumeKind
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import DeviceUse, Launch
from corral.host.runtimes.docker.container_request import body_of, cdi_devices, with_devices
from corral.host.runtimes.docker.records import HostUser, OrderedDevice

ALICE = HostUser(1000, 100, [100, 27])
SPEC = JobSpec("alice", ("python", "train.py"), workdir="/", container=Container("repo/train:1"))
USE = DeviceUse(Device("GPU-1", 0, "A100", 81920), None, (), Tenant("4", "alice", Grant("GPU-1", 1000, 81920)))
ENV = (("CORRAL_GPU_INDICES", "3"), ("CUDA_VISIBLE_DEVICES", "GPU-1"), ("NVIDIA_VISIBLE_DEVICES", "all"), ("SEED", "5"))


def launch(spec: JobSpec = SPEC, *, gpu: bool = True) -> Launch:
    return Launch("4.1", Job("4", 4, spec, 0.0), ENV, uses=(USE,) if gpu else ())


def body(spec: JobSpec = SPEC, who: HostUser = ALICE, *, gpu: bool = True) -> dict[str, object]:
    return body_of(launch(spec, gpu=gpu), "tag", who, log_max_bytes=10 << 20, max_processes=100)


def host(spec: JobSpec = SPEC, who: HostUser = ALICE) -> dict[str, object]:
    found = body(spec, who)["HostConfig"]
    assert isinstance(found, dict)
    return found


def ordered(*uuids: str) -> list[OrderedDevice]:
    return [OrderedDevice("nvidia", uuid, []) for uuid in uuids]


def test_variables_that_choose_gpus_are_absent_whatever_the_job_and_its_image_have() -> None:
    # To Docker a name without a value is one that the container does not have.
    assert body()["Env"] == [
        "SEED=5",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "CORRAL_GPU_INDICES",
        "CORRAL_HOME",
    ]


def test_a_job_without_gpus_sees_none_where_nvidias_runtime_is_the_default_one() -> None:
    env = body(gpu=False)["Env"]
    assert isinstance(env, list)
    assert "NVIDIA_VISIBLE_DEVICES=void" in env
    assert "NVIDIA_VISIBLE_DEVICES" not in env
    assert "CUDA_VISIBLE_DEVICES" in env


def test_gpus_are_asked_for_by_uuid_and_by_cdi_names_only_where_the_daemon_knows_all_of_these() -> None:
    info = {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-1"}, {"Source": "x", "ID": "y"}]}
    known = cdi_devices(info)
    assert known == ["nvidia.com/gpu=GPU-1"]
    by_cdi = with_devices(ordered("GPU-1"), known)
    assert by_cdi == {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1"]}]}
    for uuids, names in ((["GPU-1", "GPU-2"], known), (["GPU-1"], cdi_devices({}))):
        (asked,) = with_devices(ordered(*uuids), names)["DeviceRequests"]
        assert (asked["DeviceIDs"], asked["Capabilities"], asked["Count"]) == (uuids, [["gpu"]], 0)
    assert with_devices([], known) == {"DeviceRequests": []}


def test_a_container_runs_as_the_jobs_user_and_gains_no_power() -> None:
    assert body()["User"] == "1000:100"
    assert host()["GroupAdd"] == ["100", "27"]
    assert (host()["CapDrop"], host()["SecurityOpt"]) == (["ALL"], ["no-new-privileges"])
    assert "CapDrop" not in host(who=HostUser(0, 0, []))


def test_it_is_held_to_its_part_of_the_host() -> None:
    part = replace(launch(), cpu_milli=1500, host_memory_mib=64)
    held = body_of(part, "tag", ALICE, log_max_bytes=10 << 20, max_processes=100)["HostConfig"]
    assert (held["NanoCpus"], held["Memory"], held["MemorySwap"]) == (1_500_000_000, 64 << 20, 64 << 20)
    assert held["PidsLimit"] == 100


def test_what_docker_keeps_of_its_output_is_bounded() -> None:
    assert host()["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "20m", "max-file": "2"}}


def test_what_was_asked_for_is_passed_on() -> None:
    volume = Volume(VolumeKind.HOST_PATH, "/data", "/in", read_only=True)
    asked = replace(
        SPEC, workdir="/app", container=Container("i:1", (volume,), shm_size_mib=16, network="none", user="7")
    )
    made = host(asked)
    assert made["Mounts"] == [{"Type": "bind", "Source": "/data", "Target": "/in", "ReadOnly": True}]
    assert (made["ShmSize"], made["NetworkMode"]) == (16 << 20, "none")
    assert (body(asked)["User"], body(asked)["WorkingDir"], body(asked)["Entrypoint"]) == (
        "7",
        "/app",
        ["python", "train.py"],
    )
    assert "WorkingDir" not in body()


def test_labels_say_whose_it_is() -> None:
    labels = body()["Labels"]
    assert isinstance(labels, dict)
    assert (labels["corral.server"], labels["corral.launch"], labels["corral.user"]) == ("tag", "4.1", "alice")


def test_a_job_without_an_image_has_no_container() -> None:
    with pytest.raises(Refused, match="has no container"):
        body(replace(SPEC, container=None))


@pytest.mark.parametrize(("network", "by_name"), [("fabric", True), ("host", False)])
def test_members_of_a_gang_find_rank_0_by_a_name_on_a_network_of_the_sites_own(network: str, *, by_name: bool) -> None:
    env = (("MASTER_ADDR", "10.0.0.7"), ("MASTER_PORT", "29500"))
    spec = replace(SPEC, container=Container("repo/train:1", network=network))
    gang = [replace(launch(spec), env=env, rank=rank, members=2) for rank in range(2)]
    first, second = (body_of(one, "tag", ALICE, log_max_bytes=1 << 20, max_processes=9) for one in gang)
    told = [one for one in first["Env"] if one.startswith("MASTER_ADDR=")]
    assert told == [one for one in second["Env"] if one.startswith("MASTER_ADDR=")]
    assert "NetworkingConfig" not in second
    if by_name:
        (name,) = first["NetworkingConfig"]["EndpointsConfig"][network]["Aliases"]
        assert told == [f"MASTER_ADDR={name}"]
    else:
        assert told == ["MASTER_ADDR=10.0.0.7"]
        assert "NetworkingConfig" not in first
