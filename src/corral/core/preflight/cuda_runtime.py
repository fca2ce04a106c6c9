"""Find the CUDA runtime that a program will load: in its Python environment, on the library path, or in its binary.

Only names of files and a few strings in them are read; nothing is executed.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.core.model.version import Version, version_of
from corral.files import chunks, names_in, read_start

_TAG = re.compile(r"\+cu(\d{1,3})(\d)\b")
_TORCH_CUDA = re.compile(r"^cuda\b[^=\n]*=\s*['\"](\d{1,3}\.\d{1,3})\b", re.MULTILINE)
_WHEEL = re.compile(r"nvidia_cuda_runtime(?:_cu\d+)?-(\d{1,3}\.\d{1,3})\b[\d.]*\.dist-info")
_CONDA = re.compile(r"(?:cuda-cudart|cudatoolkit)-(\d{1,3}\.\d{1,3})\b[\d.]*-[^-]*\.json")
_PADDLE = re.compile(r"paddlepaddle_gpu-[\d.]+\.post(\d{1,3})(\d)\b")
_LIBRARY = re.compile(r"libcudart\.so\.(\d{1,3}\.\d{1,3})\b[\d.]*")
_MAJOR_LIBRARY = re.compile(r"libcudart\.so\.(\d{1,3})")
_LINKED = re.compile(rb"\0libcudart\.so\.(\d{1,3}(?:\.\d{1,3})?)\0")
_LINKED_BYTES = 1 << 24
"""Linkers write the names of libraries near the start of a file."""
_CHUNK_BYTES = 1 << 20
_LONGEST_NAME_BYTES = 64
_SHEBANG_BYTES = 512
_ELF = b"\x7fELF"
_VERSION_FILE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FoundRuntime:
    """A CUDA runtime and where it was found."""

    version: Version
    source: str


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """The directory that holds a program's interpreter and its packages."""

    root: Path

    def site_packages(self) -> list[Path]:
        pythons = [self.root / "lib" / name for name in names_in(self.root / "lib", "python3*")]
        sites = [python / kind for kind in ("site-packages", "dist-packages") for python in pythons]
        return [site for site in sites if os.path.isdir(site)]

    def has(self, package: str) -> bool:
        """Whether a package of this import name is installed."""
        return any(os.path.isdir(site / package) for site in self.site_packages())


def python_environment(program: Sequence[str], env: Mapping[str, str], workdir: Path) -> PythonEnvironment | None:
    """The environment of a Python program: that of its interpreter, or of the interpreter in its script's first line.

    None for other programs.
    """
    if not program:
        return None
    path = _which(program[0], env, workdir)
    if path is None:
        return None
    if path.name.startswith("python"):
        return PythonEnvironment(path.parent.parent)
    interpreter = _shebang(path)
    if interpreter is None:
        return None
    if interpreter.name == "env":
        named = _which("python3", env, workdir)
        return None if named is None else PythonEnvironment(named.parent.parent)
    return PythonEnvironment(interpreter.parent.parent) if interpreter.name.startswith("python") else None


def runtime_of_python(python: PythonEnvironment, env: Mapping[str, str]) -> FoundRuntime | None:
    """The runtime that is loaded first: the framework's own, then the environment's, then that on the library path."""
    return next(_in_environment(python), None) or _on_library_path(env)


def runtime_of_binary(program: Sequence[str], env: Mapping[str, str], workdir: Path) -> FoundRuntime | None:
    """The runtime that the program's file is linked to; None for a script or a binary that is linked to none.

    The library path and the machine's toolkit are not considered: every program on the machine has them.
    """
    path = _which(program[0], env, workdir) if program else None
    version = None if path is None else _linked(path)
    return None if version is None else FoundRuntime(version, str(path))


def _linked(path: Path) -> Version | None:
    """The version in the name of the runtime library that an ELF file is linked to."""
    before = b""
    try:
        for chunk in chunks(path, _LINKED_BYTES, _CHUNK_BYTES):
            if not before and not chunk.startswith(_ELF):
                return None
            found = _LINKED.search(before + chunk)
            if found:
                return version_of(found[1].decode())
            before = (before + chunk)[-_LONGEST_NAME_BYTES:]
    except OSError:
        return None
    return None


def runtime_of_machine(env: Mapping[str, str], toolkit: Path = Path("/usr/local/cuda")) -> FoundRuntime | None:
    """The first runtime on the library path, else the machine's toolkit: programs are probably built with that."""
    return _on_library_path(env) or next(_libraries(toolkit / "lib64"), None)


def _on_library_path(env: Mapping[str, str]) -> FoundRuntime | None:
    directories = (Path(name) for name in env.get("LD_LIBRARY_PATH", "").split(":") if name)
    return next((found for directory in directories for found in _libraries(directory)), None)


def _in_environment(python: PythonEnvironment) -> Iterator[FoundRuntime]:
    for site in python.site_packages():
        yield from _torch(site)
        names = names_in(site, "*.dist-info")
        for name in names:
            tagged = _TAG.search(name) if name.startswith("torch-") else _PADDLE.match(name)
            if tagged:
                yield FoundRuntime((int(tagged[1]), int(tagged[2])), str(site / name))
        for name in names:
            yield from _version(_WHEEL.fullmatch(name), site / name)
    for name in names_in(python.root / "conda-meta", "cud*.json"):
        yield from _version(_CONDA.fullmatch(name), python.root / "conda-meta" / name)
    for site in python.site_packages():
        for package in names_in(site / "nvidia"):
            yield from _libraries(site / "nvidia" / package / "lib", major=True)
        yield from _libraries(site / "torch" / "lib", major=True)
    yield from _libraries(python.root / "lib", major=True)


def _torch(site: Path) -> Iterator[FoundRuntime]:
    path = site / "torch" / "version.py"
    try:
        text = read_start(path, _VERSION_FILE_BYTES).decode(errors="replace")
    except OSError:
        return
    yield from _version(_TORCH_CUDA.search(text), path)


def _libraries(directory: Path, *, major: bool = False) -> Iterator[FoundRuntime]:
    """The runtimes in a directory. With `major`, also libraries with a major version x alone, which count as x.0."""
    names = names_in(directory, "libcudart.so.*")
    for pattern in (_LIBRARY, _MAJOR_LIBRARY) if major else (_LIBRARY,):
        for name in names:
            yield from _version(pattern.fullmatch(name), directory / name)


def _version(match: re.Match[str] | None, path: Path) -> Iterator[FoundRuntime]:
    version = version_of(match[1]) if match else None
    if version is not None:
        yield FoundRuntime(version, str(path))


def _which(word: str, env: Mapping[str, str], workdir: Path) -> Path | None:
    if "/" in word:
        path = workdir / word
        return path if os.path.isfile(path) else None
    for directory in env.get("PATH", "").split(":"):
        if directory and os.path.isfile(path := workdir / directory / word):
            return path
    return None


def _shebang(path: Path) -> Path | None:
    try:
        line = read_start(path, _SHEBANG_BYTES).split(b"\n", 1)[0]
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode(errors="replace").split()
    return Path(words[0]) if words else None
