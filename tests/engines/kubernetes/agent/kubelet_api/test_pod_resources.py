"""Questions at the pod-resources socket, against a gRPC server."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.agent.agent_report import GivenDevices
from corral.engines.kubernetes.agent.kubelet_api.pod_resources import allocatable_devices, given_devices
from tests.engines.kubernetes.agent.fake_kubelet import FakePodResources

TRAIN = GivenDevices("team", "train", "main", "nvidia.com/gpu", ("GPU-1", "GPU-2"))
SHARE = GivenDevices("team", "share", "main", "tencent.com/vcuda-core", ("GPU-3::7", "GPU-3::8"))


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakePodResources]:
    fake = FakePodResources(tmp_path / "kubelet.sock")
    yield fake
    fake.close()


def test_the_devices_of_containers_are_read_by_resource(kubelet: FakePodResources) -> None:
    kubelet.given = (TRAIN, SHARE)
    kubelet.start()
    assert given_devices(kubelet.socket) == (TRAIN, SHARE)


def test_the_devices_that_can_be_given_are_read(kubelet: FakePodResources) -> None:
    kubelet.allocatable = {"nvidia.com/gpu": ("GPU-1", "GPU-2")}
    kubelet.start()
    assert allocatable_devices(kubelet.socket) == {"nvidia.com/gpu": frozenset({"GPU-1", "GPU-2"})}


def test_an_older_kubelet_does_not_say_what_it_can_give(kubelet: FakePodResources) -> None:
    kubelet.allocatable = None
    kubelet.start()
    assert allocatable_devices(kubelet.socket) is None


def test_a_kubelet_that_is_away_is_named_by_its_socket(kubelet: FakePodResources) -> None:
    with pytest.raises(BackendFailed, match=str(kubelet.socket)):
        given_devices(kubelet.socket)


def test_a_kubelet_that_restarts_is_asked_again(kubelet: FakePodResources) -> None:
    kubelet.start()
    assert given_devices(kubelet.socket) == ()
    kubelet.close()
    with pytest.raises(BackendFailed):
        given_devices(kubelet.socket)
    kubelet.given = (TRAIN,)
    kubelet.start()
    assert given_devices(kubelet.socket) == (TRAIN,)


def test_a_process_that_has_asked_the_kubelet_may_fork(kubelet: FakePodResources) -> None:
    kubelet.given = (TRAIN, SHARE)
    kubelet.start()
    for _ in range(20):
        assert given_devices(kubelet.socket) == (TRAIN, SHARE)
        read_fd, write_fd = os.pipe()
        child = os.fork()
        if child == 0:
            os.closerange(3, write_fd)
            os.closerange(write_fd + 1, 1024)
            time.sleep(0.02)
            os.write(write_fd, b"done")
            os._exit(0)
        os.close(write_fd)
        with os.fdopen(read_fd, "rb") as pipe:
            assert pipe.read() == b"done"
        os.waitpid(child, 0)
