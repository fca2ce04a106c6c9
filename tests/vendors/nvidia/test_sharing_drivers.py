"""Whatever the means, a driver lets on a device only whom it can serve, and says in words why not."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from corral.config import Settings
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.placing.tenant import Tenant
from corral.vendors.nvidia.compute_mode import OneProcess
from corral.vendors.nvidia.hook import Hook
from corral.vendors.nvidia.mps import Mps
from corral.vendors.nvidia.nvidia_sharing import NvidiaSharing
from corral.vendors.sharing_driver import SharingDriver
from corral.vendors.sharing_without_setup import Exclusive, Timeslice
from corral.vendors.vendor import Host
from tests.core.sharing.conftest import tenant


@dataclass
class Case:
    driver: SharingDriver
    device: Device
    fitting: Tenant


def mig() -> SharingDriver:
    host = Host(Path("/nowhere"), Settings(), described=False, by_root=False)
    return NvidiaSharing(host).drivers[Means.MIG]


@pytest.fixture(params=Means)
def case(
    request: pytest.FixtureRequest, device: Device, sliced: Device, mps_control: str, tmp_path: Path
) -> Iterator[Case]:
    cases = {
        Means.EXCLUSIVE: Case(Exclusive(), device, tenant("1", 1000)),
        Means.MPS: Case(Mps(tmp_path / "h", control=mps_control), device, tenant("1", 500)),
        Means.MIG: Case(mig(), sliced, tenant("1", 1000, uuid="MIG-1")),
        Means.TIMESLICE: Case(Timeslice(), device, tenant("1", 500)),
        Means.HOOK: Case(Hook("/opt/libvgpu.so", tmp_path / "h"), device, tenant("1", 500)),
    }
    case = cases[request.param]
    yield case
    case.driver.release(case.device)


def test_a_tenant_that_fits_may_come_to_an_empty_device(case: Case, node: Node) -> None:
    assert case.driver.refusal(node, case.device, [], case.fitting) is None


def test_the_refusal_of_one_too_many_names_the_device(case: Case, node: Node) -> None:
    there = [replace(case.fitting, job_id=str(n)) for n in range(2, 4)]
    refusal = case.driver.refusal(node, case.device, there, case.fitting)
    assert refusal is not None
    assert case.device.uuid in refusal or case.fitting.grant.uuid in refusal


def test_preparing_and_releasing_may_be_repeated(case: Case) -> None:
    for act in (case.driver.prepare, case.driver.prepare, case.driver.release, case.driver.release):
        act(case.device)


def test_the_environment_is_sorted_and_names_no_device(case: Case) -> None:
    names = [name for name, _ in case.driver.environment(case.device, case.fitting)]
    assert names == sorted(names)
    assert "CUDA_VISIBLE_DEVICES" not in names


def test_an_exclusive_device_is_not_given_in_part(device: Device, node: Node) -> None:
    refusal = Exclusive().refusal(node, device, [], tenant("1", 500))
    assert refusal == "GPU-a is allocated only as a whole, not 0.5 of it; ask for --gpus 1"


def test_process_mode_is_set_before_and_taken_back_after(device: Device, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    smi.chmod(0o755)
    driver = OneProcess(nvidia_smi=str(smi))
    driver.prepare(device)
    driver.release(device)
    assert calls.read_text().splitlines() == ["-i GPU-a -c EXCLUSIVE_PROCESS", "-i GPU-a -c DEFAULT"]


@pytest.mark.parametrize(
    ("share", "words"), [(500, None), (510, "GPU-a has 0.5 of a GPU left, and 0.51 was asked for")]
)
def test_time_slices_fill_a_device_and_not_more(device: Device, node: Node, share: int, words: str | None) -> None:
    assert Timeslice().refusal(node, device, [tenant("1", 500)], tenant("2", share)) == words


def test_an_unsliced_device_serves_no_slice(device: Device, node: Node) -> None:
    refusal = mig().refusal(node, device, [], tenant("1", 1000, uuid="MIG-1"))
    assert refusal is not None
    assert "nvidia-smi -i GPU-a -mig 1" in refusal


def test_a_slice_that_is_not_there_names_those_that_are(sliced: Device, node: Node) -> None:
    refusal = mig().refusal(node, sliced, [], tenant("1", 1000, uuid="MIG-9"))
    assert refusal == "GPU-m has no slice MIG-9; it offers 1g.10gb, 3g.40gb"


def test_a_slice_has_one_holder_and_its_neighbour_is_free(sliced: Device, node: Node) -> None:
    there = [tenant("1", 1000, uuid="MIG-1")]
    assert mig().refusal(node, sliced, there, tenant("2", 1000, uuid="MIG-1")) == "job 1 has slice MIG-1"
    assert mig().refusal(node, sliced, there, tenant("2", 1000, uuid="MIG-2")) is None
