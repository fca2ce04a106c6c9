"""A stand-in for NVIDIA's driver library and one for its MPS control program, and devices to share."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.sharing.conftest import device, node, sliced
from tests.vendors.nvidia.nvml_stub import no_driver, nvml_library, nvml_stub, stubbed_nvml

__all__ = ["device", "no_driver", "node", "nvml_library", "nvml_stub", "sliced", "stubbed_nvml"]

FAKE_MPS_CONTROL = Path(__file__).with_name("fake_mps_control.py")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory with a short path: a socket's may not be long."""
    with tempfile.TemporaryDirectory(prefix="s-") as directory:
        yield Path(directory)


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the machine's nvidia-smi was called with."""
    calls = tmp_path / "calls"
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return calls


@pytest.fixture
def mps_control(tmp_path: Path) -> str:
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(f"#!{sys.executable} -ISB\n{FAKE_MPS_CONTROL.read_text()}")
    program.chmod(0o755)
    return str(program)
