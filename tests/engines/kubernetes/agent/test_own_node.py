"""A node's report has its devices, and what its kubelet says, where that can be asked."""

import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from corral.clock import SystemClock
from corral.core.sharing.arrange import Arrangement
from corral.engines.kubernetes.agent.agent_report import GivenDevices, GivenShare, ServedResource
from corral.engines.kubernetes.agent.own_node import OwnNode
from corral.engines.kubernetes.agent.version_labelling import labels_of
from corral.engines.kubernetes.agent_reports.report_reading import read_report
from corral.host.telemetry.host import host_node
from tests.engines.kubernetes.agent.fake_kubelet import FakePodResources
from tests.engines.kubernetes.agent_reports.agents import body_of

MOCK = Path(__file__).parents[4] / "src" / "corral" / "host" / "telemetry" / "data" / "mock-8gpu.toml"
GIVEN = GivenDevices("team", "train-0", "main", "nvidia.com/gpu", ("GPU-c0ffee00-0000-4000-8000-000000000000",))


@pytest.fixture
def directory() -> Iterator[Path]:
    """A kubelet's directory with a short name: the path of a socket has 107 characters at most."""
    with TemporaryDirectory(prefix="k-") as made:
        (Path(made) / "pod-resources").mkdir()
        yield Path(made)


@pytest.fixture
def kubelet(directory: Path) -> Iterator[FakePodResources]:
    kubelet = FakePodResources(directory / "pod-resources" / "kubelet.sock")
    yield kubelet
    kubelet.close()


@pytest.fixture
def own(directory: Path) -> Iterator[OwnNode]:
    node = OwnNode("gpu-01", SystemClock(), mock=MOCK, kubelet_dir=directory, arrangement=Arrangement())
    node.start()
    yield node
    node.close()


def test_a_report_is_one_that_a_server_takes_and_has_each_device_by_its_uuid(own: OwnNode) -> None:
    report = own.report()
    assert read_report(body_of(report), packed=False)[0] == report
    assert report.node.name == "gpu-01"
    assert len(report.node.devices) == 8
    assert {sample.uuid for sample in report.samples} == {device.uuid for device in report.node.devices}
    assert report.node.boot_id is not None


def test_what_the_kubelet_has_given_is_known_while_it_answers(
    own: OwnNode, kubelet: FakePodResources, caplog: pytest.LogCaptureFixture
) -> None:
    assert (own.report().given, own.report().served) == (None, ())
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1
    kubelet.given = (GIVEN,)
    kubelet.allocatable = {"nvidia.com/gpu": GIVEN.device_ids, "rdma/hca": ("a",)}
    kubelet.start()
    report = own.report()
    assert report.given == (GIVEN,)
    assert report.served == (ServedResource("nvidia.com/gpu", None), ServedResource("rdma/hca", None))
    kubelet.close()
    assert own.report().given is None


def test_what_others_plugins_gave_and_devices_that_are_gone_are_left_out(
    own: OwnNode, kubelet: FakePodResources
) -> None:
    uuid = GIVEN.device_ids[0]
    kubelet.given = (
        replace(GIVEN, device_ids=(f"{uuid}::3", "GPU-gone")),
        GivenDevices("team", "other", "main", "usb/dongle", ("x" * 2000,)),
    )
    kubelet.start()
    shares = tuple(GivenShare("team", "train-0", "u", one, 500, 1) for one in (uuid, "GPU-gone"))
    report = own.report(shares)
    assert report.given == (replace(GIVEN, device_ids=(f"{uuid}::3",)),)
    assert report.shares == shares[:1]
    assert read_report(body_of(report), packed=False)[0] == report


def test_a_kubelet_of_1_20_tells_what_it_has_given(own: OwnNode, kubelet: FakePodResources) -> None:
    kubelet.given, kubelet.allocatable = (GIVEN,), None
    kubelet.start()
    assert own.report().served == (ServedResource("nvidia.com/gpu", None),)


def test_without_the_packages_of_the_extra_the_kubelet_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, "corral.engines.kubernetes.agent.kubelet_api.pod_resources", raising=False)
    own = OwnNode("gpu-01", SystemClock(), mock=MOCK, kubelet_dir=tmp_path, arrangement=Arrangement())
    own.start()
    assert own.report().given is None
    assert "the kubelet is not asked" in caplog.text
    own.close()


def test_labels_of_versions_go_with_the_driver() -> None:
    known = host_node(driver_version="550.54", cuda_version=(12, 4))
    assert labels_of(known) == {"cuda-major-version": "12", "cuda-minor-version": "4"}
    assert labels_of(host_node()) == {"cuda-major-version": None, "cuda-minor-version": None}
