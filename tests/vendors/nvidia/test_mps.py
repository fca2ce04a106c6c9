"""MPS takes only whom NVIDIA says it can serve, and each client carries its limits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import ClientLimits, Means
from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.vendors.nvidia.mps import Mps, MpsWatch, mps_unfit
from corral.vendors.nvidia.mps_daemon import MpsHealth, MpsState
from tests.core.sharing.conftest import tenant


@pytest.mark.parametrize(
    ("device_changes", "cuda", "words"),
    [
        ({"compute_capability": (7, 0)}, (11, 5), None),
        ({"compute_capability": (9, 0)}, (12, 4), None),
        ({"compute_capability": (6, 1)}, (12, 4), "has 6.1"),
        ({"compute_capability": None}, (12, 4), "does not say its compute capability"),
        ({}, (11, 4), "is for CUDA 11.4"),
        ({}, None, "does not say its CUDA version"),
        ({"mig_enabled": True}, (12, 4), "does not run on a MIG device, and GPU-a is one"),
        ({"mig_enabled": None}, (12, 4), "does not say whether it is one"),
        ({"memory_mib": None}, (12, 4), "does not say how much memory it has"),
    ],
)
def test_what_makes_a_device_unfit_for_mps(
    device: Device, node: Node, device_changes: dict[str, Any], cuda: tuple[int, int] | None, words: str | None
) -> None:
    unfit = mps_unfit(replace(node, cuda_version=cuda), replace(device, **device_changes))
    assert unfit is None if words is None else unfit is not None and words in unfit


def test_a_device_is_unfit_where_the_program_is_missing_or_the_home_is_too_deep_for_its_pipes(
    device: Device, node: Node, tmp_path: Path, mps_control: str
) -> None:
    assert Mps(tmp_path, control=mps_control).unfit(node, device) is None
    assert "is not installed here" in str(Mps(tmp_path, control="/nowhere/control").unfit(node, device))
    assert "bytes shorter" in str(Mps(Path("/h" * 50), control=mps_control).unfit(node, device))


@pytest.fixture
def mps(tmp_path: Path, mps_control: str) -> Mps:
    return Mps(tmp_path / "h", control=mps_control)


def test_a_split_share_is_refused(mps: Mps, device: Device, node: Node) -> None:
    refusal = mps.refusal(node, device, [], tenant("1", 600, alone=False))
    assert refusal == "a share split over devices cannot be on MPS, and GPU-a is; ask for 1 GPU or less"


def test_a_second_user_waits_for_the_first(mps: Mps, device: Device, node: Node) -> None:
    there = [tenant("1", 200, user="ada")]
    refusal = mps.refusal(node, device, there, tenant("2", 200, user="bob"))
    assert refusal == "MPS on GPU-a serves ada now (job 1), and one user at a time"
    assert mps.refusal(node, device, there, tenant("2", 200, user="ada")) is None


def test_users_meet_where_the_site_runs_multi_user_mode(device: Device, node: Node, tmp_path: Path) -> None:
    mps = Mps(tmp_path, multi_user=True)
    assert mps.refusal(node, device, [tenant("1", 200, user="ada")], tenant("2", 200, user="bob")) is None


def test_a_daemon_that_runs_for_one_user_serves_one_until_it_is_started_afresh(
    device: Device, tmp_path: Path, mps_control: str
) -> None:
    before, now = (Mps(tmp_path / "h", control=mps_control, multi_user=many) for many in (False, True))
    assert (before.one_user(device), now.one_user(device)) == (True, False)
    before.prepare(device)
    now.prepare(device)
    assert now.one_user(device)
    now.release(device)
    now.prepare(device)
    assert not now.one_user(device)
    now.release(device)


def test_the_forty_ninth_client_is_refused(mps: Mps, device: Device, node: Node) -> None:
    there = [tenant(str(n), 10) for n in range(48)]
    assert mps.refusal(node, device, there[:47], tenant("x", 10)) is None
    refusal = mps.refusal(node, device, there, tenant("x", 10))
    assert refusal is not None
    assert "48 clients" in refusal


def test_a_client_carries_its_limits(mps: Mps, device: Device, tmp_path: Path) -> None:
    assert dict(mps.environment(device, tenant("1", 250))) == {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=20480M",
        "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "h/mps/GPU-a/pipe"),
        "CUDA_MPS_LOG_DIRECTORY": str(tmp_path / "h/mps/GPU-a/log"),
    }


def test_cores_granted_by_name_beat_the_share(mps: Mps, device: Device) -> None:
    client = replace(tenant("1", 250), cores_percent=60)
    assert ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "60") in mps.environment(device, client)


def test_memory_that_is_not_known_cannot_be_limited(mps: Mps, device: Device) -> None:
    with pytest.raises(Refused, match="cannot limit"):
        mps.environment(device, Tenant("1", "ada", Grant("GPU-a", 250)))


def test_with_equal_slots_the_daemon_itself_limits_each_client_and_the_driver_admits_nobody_else(
    device: Device, tmp_path: Path, mps_control: str, nvidia_smi: Path
) -> None:
    mps = Mps(tmp_path / "h", control=mps_control, slots=4, leavable=None)
    mps.prepare(device)
    daemon = mps._daemon(device)
    assert daemon._say("get_default_active_thread_percentage") == "25.0\n"
    assert daemon._say("get_default_device_pinned_mem_limit 0") == "20480M\n"
    mps.prepare(device)
    assert nvidia_smi.read_text() == "-i GPU-a -c EXCLUSIVE_PROCESS\n"
    # What a daemon was started with holds, whatever the settings of a later server say.
    assert Mps(tmp_path / "h", control=mps_control, slots=2).client_limits(device).slots == 4
    Mps(tmp_path / "h", control=mps_control, leavable=None).release(device)
    assert nvidia_smi.read_text().splitlines()[1:] == ["-i GPU-a -c DEFAULT"]


def test_why_a_client_can_exceed_its_share_is_told(device: Device, tmp_path: Path, mps_control: str) -> None:
    def limits(**more: Any) -> ClientLimits:
        return Mps(tmp_path / "h", control=mps_control, **more).client_limits(device)

    assert limits() == (None, "MPS takes the limits of a job from its own variables (see mps_slots)")
    assert limits(slots=4, leavable="only root may") == (4, "a job can leave MPS: only root may")
    assert limits(slots=4, leavable=None) == (4, None)


def test_a_daemon_that_does_not_take_its_limits_serves_nobody(
    device: Device, tmp_path: Path, mps_control: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPS_FAKE", "no-defaults")
    mps = Mps(tmp_path / "h", control=mps_control, slots=4)
    with pytest.raises(BackendFailed, match="does not take 25 % and 20480M for each client"):
        mps.prepare(device)
    assert mps.daemons() == ()


def test_more_than_a_slot_is_refused(device: Device, node: Node, tmp_path: Path, mps_control: str) -> None:
    mps = Mps(tmp_path / "h", control=mps_control, slots=3)
    assert mps.refusal(node, device, [], tenant("1", 330)) is None
    assert mps.refusal(node, device, [], tenant("1", 500)) == "MPS on GPU-a has 3 equal slots; ask for 0.33 of a GPU"


def test_the_daemon_runs_from_first_tenant_to_last(mps: Mps, device: Device) -> None:
    assert mps.health(device).state is MpsState.DOWN
    mps.prepare(device)
    first = mps.health(device)
    assert first.state is MpsState.RUNNING
    mps.prepare(device)
    assert mps.health(device) == first
    mps.release(device)
    assert mps.health(device).state is MpsState.DOWN


RUNNING, DOWN, HUNG = MpsHealth(MpsState.RUNNING, 77), MpsHealth(MpsState.DOWN, None), MpsHealth(MpsState.HUNG, 77)
FAULT = MpsHealth(MpsState.FAULT, 77, "a client's fault")
DEVICE = Device("GPU-m", 0, "NVIDIA A100", 81920, means=Means.MPS)


class StagedMps(Mps):
    """MPS whose daemon's health is what the test says; something may happen while it is asked."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.now = RUNNING
        self.meanwhile: Callable[[], None] = lambda: None
        self.restarts = 0

    def health(self, device: Device) -> MpsHealth:
        self.meanwhile()
        return self.now

    def prepare(self, device: Device) -> None:
        self.restarts += 1


class Watched:
    """Two launches on an MPS device that run, and what was told of them: the device, and who is lost with it."""

    def __init__(self) -> None:
        self.mps = StagedMps()
        self.lost: list[tuple[str, tuple[str, ...]]] = []
        self.run = ["1.1", "2.1"]
        self.watch = MpsWatch(self.mps, self.clients, lambda uuid, _, launches: self.lost.append((uuid, launches)))

    def clients(self) -> dict[str, tuple[Device, tuple[str, ...]]]:
        return {DEVICE.uuid: (DEVICE, tuple(self.run))} if self.run else {}


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_daemon_that_is_well_is_left_alone(watched: Watched) -> None:
    watched.watch.look()
    watched.watch.look()
    assert (watched.lost, watched.mps.restarts) == ([], 0)


@pytest.mark.parametrize("health", [DOWN, FAULT, HUNG])
def test_when_it_fails_its_clients_are_told_of_and_it_is_started_afresh(watched: Watched, health: MpsHealth) -> None:
    watched.watch.look()
    watched.mps.now = health
    watched.watch.look()
    assert watched.lost == [("GPU-m", ("1.1", "2.1"))]
    assert watched.mps.restarts == 1


def test_another_daemon_in_its_place_means_that_its_clients_are_lost(watched: Watched) -> None:
    watched.watch.look()
    watched.mps.now = MpsHealth(MpsState.RUNNING, 78)
    watched.watch.look()
    assert watched.lost == [("GPU-m", ("1.1", "2.1"))]
    assert watched.mps.restarts == 0


def test_a_daemon_that_was_stopped_after_its_last_client_has_not_failed(watched: Watched) -> None:
    watched.watch.look()
    watched.mps.meanwhile, watched.mps.now = watched.run.clear, DOWN
    watched.watch.look()
    assert (watched.lost, watched.mps.restarts) == ([], 0)
