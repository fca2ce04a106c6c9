"""A host whose GPUs are the stub driver's, without a server, and with a directory of its own for leases."""

from pathlib import Path

import pytest

from corral.gpu import lock_files, monitor, reading
from tests.vendors.nvidia.nvml_stub import no_driver, nvml_library, nvml_stub, stubbed_nvml

__all__ = ["no_driver", "nvml_library", "nvml_stub", "stubbed_nvml"]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path / "no-server"))
    monkeypatch.setattr(lock_files, "DIRECTORY", tmp_path / "leases")
    monkeypatch.setattr(reading, "_ANSWER_TIMEOUT_S", 60.0)  # no driver hangs here, however busy the machine
    monkeypatch.setattr(monitor, "_MONITOR", monitor.GPUMonitor())
