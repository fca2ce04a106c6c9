"""The runtime that a program will load is found where its packages say, without running any of them."""

import os
from pathlib import Path

import pytest

from corral.core.preflight import cuda_runtime as runtime
from corral.core.preflight.cuda_runtime import (
    PythonEnvironment,
    python_environment,
    runtime_of_binary,
    runtime_of_machine,
    runtime_of_python,
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    path.mkdir(parents=True)
    (tmp_path / "venv" / "bin").mkdir()
    (tmp_path / "venv" / "bin" / "python").write_text("")
    return path


def find(tmp_path: Path, **env: str) -> tuple[int, int] | None:
    found = runtime_of_python(PythonEnvironment(tmp_path / "venv"), env)
    return found.version if found else None


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("torch-2.3.0+cu121.dist-info", (12, 1)),
        ("torch-2.9.0+cu130.dist-info", (13, 0)),
        ("torch-2.3.0+cu118.dist-info", (11, 8)),
        ("nvidia_cuda_runtime_cu12-12.4.127.dist-info", (12, 4)),
        ("nvidia_cuda_runtime-13.0.48.dist-info", (13, 0)),
        ("paddlepaddle_gpu-2.6.1.post120.dist-info", (12, 0)),
        ("torch-2.3.0+cpu.dist-info", None),
        ("numpy-2.0.0.dist-info", None),
    ],
)
def test_wheels_tell_their_runtime(site: Path, tmp_path: Path, name: str, version: tuple[int, int] | None) -> None:
    (site / name).mkdir()
    assert find(tmp_path) == version


def test_what_torch_was_built_for_beats_what_lies_beside_it(site: Path, tmp_path: Path) -> None:
    (site / "nvidia_cuda_runtime_cu12-12.4.127.dist-info").mkdir()
    (site / "torch").mkdir()
    (site / "torch" / "version.py").write_text(
        "from typing import Optional\ncuda: Optional[str] = '12.1'\nhip = None\n"
    )
    assert find(tmp_path) == (12, 1)


def test_a_torch_without_cuda_brings_none(site: Path, tmp_path: Path) -> None:
    (site / "torch").mkdir()
    (site / "torch" / "version.py").write_text("cuda: Optional[str] = None\n")
    assert find(tmp_path) is None


@pytest.mark.parametrize("name", ["cuda-cudart-12.1.105-0.json", "cudatoolkit-12.1.0-h123_4.json"])
def test_conda_packages_tell_their_runtime(site: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "venv" / "conda-meta").mkdir()
    (tmp_path / "venv" / "conda-meta" / name).write_text("{}")
    assert find(tmp_path) == (12, 1)


@pytest.mark.parametrize("place", ["site-packages/nvidia/cuda_runtime/lib", "site-packages/nvidia/cu13/lib", ".."])
@pytest.mark.parametrize(
    ("names", "version"),
    [
        (["libcudart.so.13.0.48"], (13, 0)),
        (["libcudart.so.12", "libcudart.so.12.4.127"], (12, 4)),
        (["libcudart.so.13"], (13, 0)),
        (["libcudart.so", "libcudart_static.a"], None),
    ],
)
def test_libraries_in_the_environment_tell_its_runtime_where_no_package_does(
    site: Path, tmp_path: Path, place: str, names: list[str], version: tuple[int, int] | None
) -> None:
    directory = site.parent / place
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()
    assert find(tmp_path) == version
    (site / "nvidia_cuda_runtime_cu12-12.1.105.dist-info").mkdir()
    assert find(tmp_path) == (12, 1)


def test_the_first_library_path_with_a_runtime_counts(site: Path, tmp_path: Path) -> None:
    for name, version in (("a", "11.8.89"), ("b", "12.4.127")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"libcudart.so.{version}").write_text("")
    assert find(tmp_path, LD_LIBRARY_PATH=f"{tmp_path}/none::{tmp_path}/b:{tmp_path}/a") == (12, 4)


def test_the_machines_toolkit_is_told_where_its_library_states_a_version(tmp_path: Path) -> None:
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libcudart.so.12").touch()
    assert runtime_of_machine({}, tmp_path) is None
    (tmp_path / "lib64" / "libcudart.so.12.2.140").touch()
    found = runtime_of_machine({}, tmp_path)
    assert found is not None
    assert found.version == (12, 2)


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (b"\x7fELF\2\0libm.so.6\0libcudart.so.12\0libc.so.6\0", (12, 0)),
        (b"\x7fELF\2\0libcudart.so.10.1\0", (10, 1)),
        (b"\x7fELF\2\0libc.so.6\0", None),
        (b"#!/bin/sh\necho \0libcudart.so.13\0\n", None),
        (b"", None),
    ],
    ids=["major", "minor", "no CUDA", "script", "empty"],
)
def test_a_binary_tells_the_runtime_it_is_linked_to(
    tmp_path: Path, content: bytes, version: tuple[int, int] | None
) -> None:
    (tmp_path / "program").write_bytes(content)
    (tmp_path / "libcudart.so.13.0.48").touch()
    found = runtime_of_binary(["./program"], {"LD_LIBRARY_PATH": str(tmp_path)}, tmp_path)
    assert (found and found.version) == version


def test_a_program_that_is_not_there_tells_no_runtime(tmp_path: Path) -> None:
    assert runtime_of_binary(["nowhere"], {"PATH": str(tmp_path)}, tmp_path) is None
    assert runtime_of_binary([], {}, tmp_path) is None


def test_the_environment_is_that_of_the_interpreter_or_of_the_scripts_own(site: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    tool = tmp_path / "tool"
    tool.write_text(f"#!{venv}/bin/python\n")
    loose = tmp_path / "loose"
    loose.write_text("#!/usr/bin/env python3\n")
    (venv / "bin" / "python3").write_text("")
    path = {"PATH": f"{tmp_path}/none:{venv}/bin"}
    for program in ("python", f"{venv}/bin/python", "venv/bin/python", str(tool), str(loose)):
        assert python_environment([program, "t.py"], path, tmp_path) == PythonEnvironment(venv)


def test_other_programs_have_no_python_environment(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF")
    (tmp_path / "script").write_text("#!/bin/sh\n")
    for program in (["./binary"], ["./script"], ["./missing"], ["nowhere"], []):
        assert python_environment(program, {"PATH": str(tmp_path)}, tmp_path) is None


def test_a_name_that_lies_across_two_readings_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_CHUNK_BYTES", 70)
    for at in range(40, 80):
        (tmp_path / "program").write_bytes(b"\x7fELF".ljust(at) + b"\0libcudart.so.12.4\0".ljust(100))
        found = runtime_of_binary(["./program"], {}, tmp_path)
        assert found is not None
        assert found.version == (12, 4)


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_program_or_a_package_is_not_waited_for(site: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "program")
    (site / "torch").mkdir()
    os.mkfifo(site / "torch" / "version.py")
    assert runtime_of_binary(["./program"], {}, tmp_path) is None
    assert python_environment(["./program"], {}, tmp_path) is None
    assert find(tmp_path) is None
