"""AMD's devices from a file: how jobs see them, alone and in containers, how they are shared, and who is kept off."""

from dataclasses import replace
from pathlib import Path

import pytest

from corral.cli.jobs.reserve import exports
from corral.client import JobRow
from corral.clock import ManualClock
from corral.core.control.launching.environment import launches_of
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.jobs.job import Job, JobKind, JobSpec, Request
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.placing.fit import Cause, Fit, Misfit, fit
from corral.core.model.placing.state import NodeState, slot_of
from corral.core.model.placing.tenant import Tenant
from corral.core.model.view import View
from corral.core.ports.preflight import Effect, Place, Workload
from corral.core.preflight.rules import check
from corral.core.sharing.arrange import Arrangement
from corral.gpu.leasing import Lease
from corral.host.runtimes.docker.container_request import with_devices
from corral.host.runtimes.docker.records import OrderedDevice
from corral.host.runtimes.process.srun.layout import devices_variable
from corral.host.telemetry.discover import discover
from corral.vendors.amd import AMD
from corral.vendors.amd.amd_sharing import AmdSharing
from corral.vendors.vendor import DeviceNumbers

MOCK = """
slot_name = "rocm"
[attributes]
amdgpu_driver = "6.10.5"
[[devices]]
mother_uuid = "GPU-a0"
model_name = "AMD Instinct MI300X"
memory_size = "192G"
links = [{ peer = 1, kind = "xgmi" }]
[[devices]]
mother_uuid = "GPU-a1"
model_name = "AMD Instinct MI300X"
memory_size = "192G"
[[devices]]
mother_uuid = "AMD-2"
model_name = "AMD Instinct MI300X-cpx"
memory_size = "24G"
is_mig_device = true
[[devices]]
mother_uuid = "AMD-2"
model_name = "AMD Instinct MI300X-cpx"
memory_size = "24G"
is_mig_device = true
[[devices]]
vendor = "nvidia"
mother_uuid = "GPU-n"
model_name = "NVIDIA A100"
memory_size = "80G"
"""


@pytest.fixture
def found(tmp_path: Path) -> Node:
    path = tmp_path / "mock.toml"
    path.write_text(MOCK)
    return discover(ManualClock(), mock=path).node()


def env_of(node: Node, *uuids: str, given: tuple[tuple[str, str], ...] = ()) -> dict[str, str]:
    """What a job finds in its environment that has these devices of a node."""
    view = View(nodes={node.name: node})
    job = Job("1", 1, JobSpec("alice", ("true",), env=given), 0.0)
    member = Member(node.name, tuple(Grant(uuid, 1000) for uuid in uuids), 0, 0)
    (launch,) = launches_of(job, Allocation("1.1", "1", "alice", Placement((member,)), 0.0), view)
    return dict(launch.env)


def test_mock_devices_of_a_vendor_are_its_own(found: Node) -> None:
    assert [(device.uuid, device.vendor) for device in found.devices] == [
        ("GPU-a0", "amd"),
        ("GPU-a1", "amd"),
        ("AMD-2", "amd"),
        ("GPU-n", "nvidia"),
    ]
    assert (found.driver_version, found.cuda_version) == ("6.10.5", None)
    assert found.devices[0].links[0].kind == "xgmi"
    assert [(part.uuid, part.profile) for part in found.devices[2].partitions] == [
        ("AMD-2-p2", "cpx"),
        ("AMD-2-p3", "cpx"),
    ]


def test_a_job_sees_its_devices_by_uuid_and_no_variable_of_others_hides_them(found: Node) -> None:
    env = env_of(found, "GPU-a0", "GPU-a1", given=(("HIP_VISIBLE_DEVICES", "7"), ("CUDA_VISIBLE_DEVICES", "7")))
    assert env["ROCR_VISIBLE_DEVICES"] == "GPU-a0,GPU-a1"
    assert env.keys().isdisjoint({"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
    assert devices_variable(env) == "ROCR_VISIBLE_DEVICES"
    assert devices_variable(env_of(found, "GPU-n")) == "CUDA_VISIBLE_DEVICES"


def test_a_lease_and_a_reservation_show_a_shell_the_devices_in_the_same_way() -> None:
    assert Lease({"GPU-a0": 0}, lambda: None, vendor="amd").env == {"ROCR_VISIBLE_DEVICES": "GPU-a0"}
    row = JobRow(id="4", devices=("GPU-a0",), kind=JobKind.RESERVE)
    assert exports(row, "amd")[0] == "export ROCR_VISIBLE_DEVICES=GPU-a0"
    assert exports(row)[0] == "export CUDA_VISIBLE_DEVICES=GPU-a0"


def test_a_job_of_another_vendors_sees_none_of_them(found: Node) -> None:
    env = env_of(found, "GPU-n")
    assert (env["CUDA_VISIBLE_DEVICES"], env["ROCR_VISIBLE_DEVICES"]) == ("GPU-n", "")
    alone = env_of(replace(found, devices=found.devices[3:]), "GPU-n")
    assert "ROCR_VISIBLE_DEVICES" not in alone


def test_a_job_without_gpus_sees_none(found: Node) -> None:
    env = env_of(found)
    assert (env["CUDA_VISIBLE_DEVICES"], env["ROCR_VISIBLE_DEVICES"]) == ("", "")


def test_a_container_gets_the_control_file_and_that_of_each_device() -> None:
    host = with_devices([OrderedDevice("amd", "GPU-a0", ["/dev/dri/renderD128"])], [])
    assert [one["PathOnHost"] for one in host["Devices"]] == ["/dev/kfd", "/dev/dri/renderD128"]
    assert {one["CgroupPermissions"] for one in host["Devices"]} == {"rw"}
    assert host["DeviceRequests"] == []


def test_a_site_that_wants_mps_has_them_whole_and_is_told_why(found: Node) -> None:
    arranged = Arrangement((("*", Means.MPS),))
    assert {device.means for device in arranged.node(found).devices[:2]} == {Means.EXCLUSIVE}
    assert "AMD has no MPS" in arranged.refusals(found)[0]


def test_partitions_are_allocated_like_devices_one_job_each(found: Node) -> None:
    arranged = Arrangement().node(found)
    part = next(device for device in arranged.devices if device.uuid == "AMD-2-p2")
    assert (part.vendor, part.mig_profile, part.slice_milli) == ("amd", "cpx", 500)
    whole = next(device for device in arranged.devices if device.uuid == "AMD-2")
    driver = AmdSharing().drivers[Means.MIG]
    tenant = Tenant("1", "ada", Grant("AMD-2-p2", 1000))
    assert driver.refusal(arranged, whole, [], tenant) is None
    assert "job 1 has slice AMD-2-p2" in str(driver.refusal(arranged, whole, [tenant], tenant))
    uncut = driver.refusal(arranged, arranged.devices[0], [], tenant)
    assert "--compute-partition" in str(uncut)


@pytest.mark.parametrize(("vendor", "slots"), [(None, (3,)), ("nvidia", (3,)), ("amd", (0, 1))])
def test_no_job_lands_on_a_device_of_another_maker(found: Node, vendor: str | None, slots: tuple[int, ...]) -> None:
    free = tuple(slot_of(device, None, 0, 0)._replace(blocked=None) for device in Arrangement().node(found).devices)
    state = NodeState(free, 8000, 65536)
    assert fit(Request(vendor=vendor), state) == Fit(slots)
    for gang in (Request(vendor=vendor, devices=3), Request(vendor=vendor, devices=4)):
        answer = fit(gang, state)
        assert isinstance(answer, Misfit)
        assert dict(answer.devices)[Cause.VENDOR] == len(state.slots) - sum(
            device.vendor == (vendor or "nvidia") for device in Arrangement().node(found).devices
        )


def test_a_program_that_brings_cuda_is_refused_there() -> None:
    (finding,) = check(Workload(runtime=(12, 4)), Place("AMD Instinct MI300X", vendor="amd"))
    assert (finding.effect, finding.rule) == (Effect.BLOCK, "cuda-on-amd")
    assert check(Workload(), Place("AMD Instinct MI300X", vendor="amd")) == ()


def test_a_device_of_this_vendor_has_no_compute_capability_and_no_rule_of_nvidias() -> None:
    work = Workload(dtype="bfloat16", framework="vllm")
    assert check(work, Place("AMD Instinct MI300X", vendor="amd", means=Means.TIMESLICE)) == ()


def test_device_values_without_a_vendor_are_the_first_ones() -> None:
    assert Device("GPU-1", 0, "NVIDIA A100", 81920).vendor == "nvidia"


@pytest.mark.parametrize(
    ("file", "found"),
    [("/dev/dri/renderD131", DeviceNumbers(226, 131, 131)), ("/dev/kfd", None), ("/dev/dri/card1", None)],
)
def test_the_number_of_a_render_node_is_in_its_name(file: str, found: DeviceNumbers | None) -> None:
    assert AMD.files.number_of(file) == found
