"""Which CUDA runtime a program will load: from its Python environment, the library path, or what it is linked to.

Only names of files and a few words in them are read; nothing is executed.
"""

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.preflight.compatibility import Version, version_of

_TAG = re.compile(r"\+cu(\d+)(\d)\b")
_TORCH_CUDA = re.compile(r"^cuda\b[^=]*=\s*['\"](\d+\.\d+)", re.MULTILINE)
_WHEEL = re.compile(r"nvidia_cuda_runtime(?:_cu\d+)?-(\d+\.\d+)[\d.]*\.dist-info")
_CONDA = re.compile(r"(?:cuda-cudart|cudatoolkit)-(\d+\.\d+)[\d.]*-[^-]*\.json")
_PADDLE = re.compile(r"paddlepaddle_gpu-[\d.]+\.post(\d+)(\d)")
_LIBRARY = re.compile(r"libcudart\.so\.(\d+\.\d+)[\d.]*")
_MAJOR_LIBRARY = re.compile(r"libcudart\.so\.(\d+)")
_LINKED = re.compile(rb"\0libcudart\.so\.(\d+(?:\.\d+)?)\0")
_LINKED_BYTES = 1 << 24
"""Linkers write the names of libraries near the start of a file."""
_ELF = b"\x7fELF"
_LIBRARIES_IN = ("nvidia/*/lib", "torch/lib")
"""Where wheels keep a runtime's libraries, below the packages."""
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
        return sorted(self.root.glob("lib/python3*/site-packages")) + sorted(
            self.root.glob("lib/python3*/dist-packages")
        )

    def has(self, package: str) -> bool:
        """Whether a package of this import name is installed."""
        return any((site / package).is_dir() for site in self.site_packages())


def python_environment(program: Sequence[str], env: Mapping[str, str], workdir: Path) -> PythonEnvironment | None:
    """The environment of a Python program: of its interpreter, or of the one its script names; None for another."""
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
    """The runtime that would be loaded first: the framework's own, then the environment's, then the library path's."""
    return next(_in_environment(python), None) or _on_library_path(env)


def runtime_of_binary(program: Sequence[str], env: Mapping[str, str], workdir: Path) -> FoundRuntime | None:
    """The runtime that the program's file is linked to; None for a script, and for a binary that does without.

    What lies on the library path or in the machine's toolkit says nothing of a program: a shell has them too.
    """
    path = _which(program[0], env, workdir) if program else None
    try:
        if path is None or path.stat().st_size < len(_ELF):
            return None
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            linked = _LINKED.search(text, 0, _LINKED_BYTES) if text[: len(_ELF)] == _ELF else None
            version = version_of(linked[1].decode()) if linked else None
    except OSError:
        return None
    return None if version is None else FoundRuntime(version, str(path))


def runtime_of_machine(env: Mapping[str, str], toolkit: Path = Path("/usr/local/cuda")) -> FoundRuntime | None:
    """The first on the library path, else the one of the machine's toolkit: what programs are likely built with."""
    return _on_library_path(env) or next(_libraries(toolkit / "lib64"), None)


def _on_library_path(env: Mapping[str, str]) -> FoundRuntime | None:
    directories = (Path(name) for name in env.get("LD_LIBRARY_PATH", "").split(":") if name)
    return next((found for directory in directories for found in _libraries(directory)), None)


def _in_environment(python: PythonEnvironment) -> Iterator[FoundRuntime]:
    for site in python.site_packages():
        yield from _torch(site)
        names = sorted(entry.name for entry in site.glob("*.dist-info"))
        for name in names:
            tagged = _TAG.search(name) if name.startswith("torch-") else _PADDLE.match(name)
            if tagged:
                yield FoundRuntime((int(tagged[1]), int(tagged[2])), str(site / name))
        for name in names:
            yield from _version(_WHEEL.fullmatch(name), site / name)
    for entry in sorted((python.root / "conda-meta").glob("cud*.json")):
        yield from _version(_CONDA.fullmatch(entry.name), entry)
    for site in python.site_packages():
        for pattern in _LIBRARIES_IN:
            for directory in sorted(site.glob(pattern)):
                yield from _libraries(directory, major=True)
    yield from _libraries(python.root / "lib", major=True)


def _torch(site: Path) -> Iterator[FoundRuntime]:
    path = site / "torch" / "version.py"
    if path.is_file():
        with path.open("rb") as file:
            text = file.read(_VERSION_FILE_BYTES).decode(errors="replace")
        yield from _version(_TORCH_CUDA.search(text), path)


def _libraries(directory: Path, *, major: bool = False) -> Iterator[FoundRuntime]:
    """The runtimes in a directory; `major`: then those whose library states a major version alone, as its first."""
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return
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
        return path if path.is_file() else None
    for directory in env.get("PATH", "").split(":"):
        if directory and (Path(directory) / word).is_file():
            return Path(directory) / word
    return None


def _shebang(path: Path) -> Path | None:
    try:
        with path.open("rb") as file:
            line = file.read(512).split(b"\n", 1)[0]
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode(errors="replace").split()
    return Path(words[0]) if words else None
