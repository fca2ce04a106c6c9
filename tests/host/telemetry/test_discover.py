"""Which source a host gets."""

import ctypes
import logging
from pathlib import Path

import pynvml
import pytest

from corral.clock import ManualClock
from corral.core.model.errors import Refused
from corral.host.telemetry.discover import AnyDriver, discover
from tests.host.telemetry.rigs import smi_rig
from tests.vendors.nvidia.nvml_stub import LIBRARY, NvmlStub


def test_a_mock_file_comes_before_any_driver(stubbed_nvml: NvmlStub, tmp_path: Path) -> None:
    path = tmp_path / "mock.toml"
    path.write_text('[[devices]]\nmother_uuid = "a"\nmodel_name = "GPU"\nmemory_size = "8G"\n')
    assert discover(ManualClock(), mock=path).name == "mock"


def test_a_bad_mock_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        discover(ManualClock(), mock=tmp_path / "nowhere.toml")


def test_nvml_is_preferred(stubbed_nvml: NvmlStub) -> None:
    source = discover(ManualClock())
    assert len(source.node().devices) == 8
    assert source.name == "nvml"


@pytest.mark.usefixtures("no_driver")
def test_nvidia_smi_serves_where_nvml_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi_rig(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    source = discover(ManualClock())
    assert len(source.node().devices) == 3
    assert source.name == "nvidia-smi"


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_the_host_has_no_devices_and_says_why_once(caplog: pytest.LogCaptureFixture) -> None:
    source = discover(ManualClock())
    assert isinstance(source, AnyDriver)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert source.node().devices == ()
            assert source.sample() == ()
    assert source.reason is not None
    assert "libnvidia-ml.so.1" in source.reason
    assert "no nvidia-smi on the PATH" in source.reason
    assert len(caplog.records) == 1


def test_a_driver_of_another_test_is_not_found(nvml_library: Path) -> None:
    ctypes.CDLL(str(nvml_library / LIBRARY))
    with pytest.raises(pynvml.NVMLError_LibraryNotFound):
        pynvml.nvmlInit()


@pytest.mark.usefixtures("no_driver")
def test_a_driver_that_comes_up_later_is_found(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    source = discover(clock)
    assert source.node().devices == ()
    monkeypatch.setenv("NVML_STUB_CONTROL", str(nvml_stub.control))
    monkeypatch.setattr(pynvml, "CDLL", lambda name: ctypes.CDLL(str(nvml_stub.directory / LIBRARY)))
    clock.advance(31.0)
    assert len(source.node().devices) == 8
    assert source.name == "nvml"
