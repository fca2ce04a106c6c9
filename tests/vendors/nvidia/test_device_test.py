"""Corral's own test of a GPU, through a driver library built with gcc, as a program as it is run on a node."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("cuda_stub.c")
LIBRARY = "libcuda.so.1"

Finished = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def cuda_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that holds the stub library."""
    directory = tmp_path_factory.mktemp("cuda")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O3", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}",
         "-o", str(directory / LIBRARY), str(SOURCE)],
        check=True,
    )  # fmt: skip
    return directory


@pytest.fixture
def run(cuda_library: Path) -> Callable[..., Finished]:
    """Runs the test with the driver of the stub."""

    def of(**variables: str) -> Finished:
        env = {**os.environ, "LD_LIBRARY_PATH": str(cuda_library), **variables}
        command = (sys.executable, "-m", "corral.vendors.nvidia.device_test")
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    return of


def test_a_gpu_that_keeps_its_memory_and_multiplies_right_passes(run: Callable[..., Finished]) -> None:
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "products are right; 256M of memory keep their patterns" in done.stdout


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("memory", "the memory at 0 MiB does not keep 0xa5a55a5a"),
        ("product", "product 1 of two matrices is wrong"),
        ("lost", "cuDeviceGet failed with CUDA error 999"),
    ],
)
def test_a_faulty_gpu_fails_and_says_by_what(run: Callable[..., Finished], fault: str, said: str) -> None:
    done = run(CUDA_STUB_FAULT=fault)
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{said}\n", "")


def test_a_driver_that_cannot_translate_the_program_says_nothing_of_the_gpu(run: Callable[..., Finished]) -> None:
    done = run(CUDA_STUB_FAULT="program")
    assert done.returncode == 0
    assert done.stdout == "this driver cannot multiply matrices; 256M of memory keep their patterns\n"


def test_a_gpu_without_free_memory_is_tested_by_products_alone(run: Callable[..., Finished]) -> None:
    assert "0M of memory" in run(CUDA_STUB_MIB="100").stdout


def test_a_machine_without_the_drivers_library_fails(run: Callable[..., Finished]) -> None:
    done = run(LD_LIBRARY_PATH="/nonexistent")
    assert done.returncode == 1
    assert "the driver's library cannot be loaded" in done.stdout


@pytest.mark.gpu
def test_a_real_gpu_passes() -> None:
    command = (sys.executable, "-m", "corral.vendors.nvidia.device_test")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "products are right" in done.stdout
