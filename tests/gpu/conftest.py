"""A host whose GPUs are the stub driver's, without a server, and with a directory of its own for leases."""

from pathlib import Path

import pytest

from corral.gpu import lock_files, monitor
from tests.nvml_stub import nvml_library, nvml_stub, stubbed_nvml

__all__ = ["nvml_library", "nvml_stub", "stubbed_nvml"]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path / "no-server"))
    monkeypatch.setattr(lock_files, "DIRECTORY", tmp_path / "leases")
    monkeypatch.setattr(monitor, "_MONITOR", monitor.GPUMonitor())


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host whose driver library cannot be loaded and whose PATH holds nothing."""
    import pynvml

    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", fail)
    monkeypatch.setenv("PATH", str(tmp_path))
