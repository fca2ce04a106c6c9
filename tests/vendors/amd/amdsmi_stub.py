"""A driver library for tests: `libamd_smi.so` built with gcc, whose GPUs do what a control file says.

The real package amdsmi loads it. What Corral does not call of it only has to be there.
"""

import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("amd_smi_stub.c")


def stub_uuid(index: int) -> str:
    """The UUID of the stub's device or partition `index`."""
    return f"GPU-a3d0000000000{index:03x}"


def build_stub(directory: Path) -> None:
    """Build the library into `directory`/lib, with all that the package looks for in it."""
    spec = find_spec("amdsmi")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    wrapper = Path(spec.submodule_search_locations[0], "amdsmi_wrapper.py").read_text()
    wanted = set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", wrapper))
    made = set(re.findall(r"^int (\w+)\(", SOURCE.read_text(), re.MULTILINE))
    others = directory / "others.c"
    others.write_text("".join(f"int {name}(void) {{ return 2; }}\n" for name in sorted(wanted - made)))
    (directory / "lib").mkdir()
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror",
         "-o", str(directory / "lib" / "libamd_smi.so"), str(SOURCE), str(others)],
        check=True,
    )  # fmt: skip


@dataclass
class AmdSmiStub:
    """One test's driver: `say` replaces what it answers from now on."""

    directory: Path
    control: Path

    def say(self, *lines: str) -> None:
        """Replace the control file, whole, by these lines."""
        draft = self.control.with_suffix(".draft")
        draft.write_text("".join(f"{line}\n" for line in lines))
        draft.rename(self.control)


@pytest.fixture(scope="session")
def amdsmi_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory, as ROCm's, that holds the stub library."""
    directory = tmp_path_factory.mktemp("rocm")
    build_stub(directory)
    return directory


@pytest.fixture
def amdsmi_stub(amdsmi_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AmdSmiStub:
    """A driver with two idle GPUs, for this process."""
    stub = AmdSmiStub(amdsmi_library, tmp_path / "amdsmi-control")
    stub.say()
    kernel_driver = tmp_path / "kfd"
    kernel_driver.touch()
    monkeypatch.setenv("ROCM_HOME", str(stub.directory))
    monkeypatch.setenv("AMDSMI_STUB_CONTROL", str(stub.control))
    monkeypatch.setattr("corral.vendors.amd.smi.KERNEL_DRIVER", str(kernel_driver))
    return stub
