"""A driver library for tests: `libnvidia-ml.so.1` built with gcc, whose GPUs do what a control file says.

The real pynvml loads it: in this process through `stubbed_nvml`, in another through `NvmlStub.env`.
Import the fixtures into the conftest.py that wants them.
"""

import ctypes
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pynvml
import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")
LIBRARY = "libnvidia-ml.so.1"


def stub_uuid(index: int) -> str:
    """The UUID of the stub's GPU `index`."""
    return f"GPU-57ab0000-0000-4000-8000-00000000000{index:x}"


def build_stub(directory: Path, *, without: tuple[str, ...] = ()) -> Path:
    """Build the library into `directory`, without the named functions, as a driver of another age would be."""
    hidden = "".join(f"{name}; " for name in without)
    script = directory / "exports.map"
    script.write_text(f"{{ global: nvml*; local: {hidden}*; }};\n")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", f"-Wl,--version-script={script}",
         f"-Wl,-soname,{LIBRARY}", "-o", str(directory / LIBRARY), str(SOURCE)],
        check=True,
    )  # fmt: skip
    return directory


@dataclass
class NvmlStub:
    """One test's driver: `say` replaces what it answers from now on."""

    directory: Path
    control: Path
    lines: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to load this driver."""
        return {"LD_LIBRARY_PATH": str(self.directory), "NVML_STUB_CONTROL": str(self.control)}

    def say(self, *lines: str) -> None:
        """Replace the control file, whole, by these lines."""
        draft = self.control.with_suffix(".draft")
        draft.write_text("".join(f"{line}\n" for line in lines))
        draft.rename(self.control)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that holds the stub library."""
    return build_stub(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml_stub(nvml_library: Path, tmp_path: Path) -> NvmlStub:
    """A driver with eight idle GPUs, for processes started with its `env`."""
    stub = NvmlStub(nvml_library, tmp_path / "nvml-control")
    stub.say()
    return stub


@pytest.fixture
def stubbed_nvml(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlStub]:
    """The same driver, loaded into this process."""
    load_stub(nvml_stub, monkeypatch)
    yield nvml_stub
    nvml_stub.say()


def load_stub(stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pynvml in this process speak to the stub until the test ends."""
    monkeypatch.setenv("NVML_STUB_CONTROL", str(stub.control))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(stub.directory / LIBRARY)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})


def unload_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pynvml in this process find no library until the test ends, nor one that it has loaded."""

    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", fail)


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host whose driver library cannot be loaded and whose PATH holds nothing."""
    unload_driver(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
