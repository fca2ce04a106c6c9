"""What is sent to a host: Corral's own modules, the pure Python packages of an agent, and the supervisor of jobs.

All of it comes from this server's own installation, so that nothing is fetched. The same installation makes the same
bytes: they name the version.
"""

import gzip
import hashlib
import io
import os
import re
import struct
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import corral
from corral.core.model.errors import BackendFailed
from corral.host.node.installed.tree import PACKAGES, SUPERVISOR

DISTRIBUTIONS = ("nvidia-ml-py", "pyyaml", "docker", "requests", "urllib3", "idna", "certifi", "charset-normalizer")
"""The packages of an agent: devices, settings, and containers with what Docker's library needs. Their compiled parts
are left out: each does without.
"""

_PACKAGE = Path(corral.__file__).parent
_NOT_SENT = frozenset({"pages", "docs", "__pycache__"})
_SENT = (".py", ".typed", ".txt", ".toml", ".json", ".yaml", ".yml", ".csv", ".pem", ".mako")
_NOTES = ("METADATA", "LICENSE", "licenses", "NOTICE", "COPYING", "AUTHORS")

_PT_INTERP = 3
_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le"}
"""The names of architectures, by their numbers in ELF files."""


class WrongMachine(Exception):
    """A host on which this server's supervisor does not run; says why."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The program of an agent, for hosts of one architecture.

    Attributes:
        version: the name of its directory: Corral's version, and the start of the content's hash.
        data: a compressed tar.
        sha256: the hash of `data`.
    """

    version: str
    data: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class _Supervisor:
    """A compiled supervisor: the architecture it is for, and the least glibc that it needs; None if it is static."""

    path: Path
    machine: str
    glibc: tuple[int, int] | None


def bundle_for(machine: str, libc: str) -> Bundle:
    """Return the bundle for a host, by the name of its architecture and its C library ("glibc 2.36").

    Raises WrongMachine if there is no supervisor for it, BackendFailed if this installation cannot be read.
    """
    found = next((one for one in _supervisors() if one.machine == machine), None)
    if found is None:
        have = ", ".join(one.machine for one in _supervisors()) or "none"
        program = f"{_PACKAGE.parent / SUPERVISOR}.{machine:.20}"
        raise WrongMachine(
            f"its architecture is {machine:.20}, and this server has the supervisor of jobs for {have}; compile it on "
            f"such a machine (python deploy/build_supervisor.py), and copy it here to {program}"
        )
    if found.glibc is not None and not libc.startswith("glibc "):
        raise WrongMachine(
            f"this server's supervisor of jobs needs glibc, and the host has {libc or 'another library'}"
        )
    if found.glibc is not None and _numbers(libc.removeprefix("glibc ")) < found.glibc:
        needed = ".".join(map(str, found.glibc))
        raise WrongMachine(
            f"this server's supervisor of jobs needs glibc {needed}, and the host has {libc}; compile it statically"
        )
    return _bundle(found.path)


@cache
def _bundle(supervisor: Path) -> Bundle:
    raw = io.BytesIO()
    try:
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, path in sorted(_files(supervisor)):
                _add(archive, name, path)
    except OSError as error:
        raise BackendFailed(f"this server's own program cannot be read: {error.filename}: {error.strerror}") from None
    data = gzip.compress(raw.getvalue(), compresslevel=6, mtime=0)
    content = hashlib.sha256(raw.getvalue()).hexdigest()
    return Bundle(f"{corral.__version__}-{content[:12]}", data, hashlib.sha256(data).hexdigest())


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    content = path.read_bytes()
    member = tarfile.TarInfo(f"{PACKAGES}/{name}")
    member.size = len(content)
    member.mode = 0o755 if name == SUPERVISOR else 0o644
    archive.addfile(member, io.BytesIO(content))


def _files(supervisor: Path) -> Iterator[tuple[str, Path]]:
    for root, directories, names in os.walk(_PACKAGE):
        directories[:] = [name for name in directories if name not in _NOT_SENT]
        for name in names:
            if name.endswith(_SENT):
                path = Path(root, name)
                yield f"corral/{path.relative_to(_PACKAGE)}", path
    yield SUPERVISOR, supervisor
    for name in DISTRIBUTIONS:
        yield from _of_distribution(name)


def _of_distribution(name: str) -> Iterator[tuple[str, Path]]:
    """The modules of an installed package, its data, and its licences."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise BackendFailed(f"this server has no package {name}, which agents need") from None
    for file in found.files or ():
        path = PurePosixPath(file)
        notes = path.parts[0].endswith(".dist-info") and any(part.startswith(_NOTES) for part in path.parts[1:])
        modules = path.suffix in _SENT and not path.parts[0].endswith(".dist-info")
        if (notes or modules) and ".." not in path.parts and not path.is_absolute():
            yield str(path), Path(str(found.locate_file(file)))


@cache
def _supervisors() -> tuple[_Supervisor, ...]:
    """The compiled supervisors of this installation: its own, and those for other architectures beside it."""
    own = _PACKAGE.parent / SUPERVISOR
    found = [_read(path) for path in (own, *sorted(own.parent.glob(f"{own.name}.*"))) if path.is_file()]
    return tuple(one for one in found if one is not None)


def _read(path: Path) -> _Supervisor | None:
    content = path.read_bytes()
    machine = (
        _MACHINES.get(int.from_bytes(content[18:20], "little")) if content.startswith(b"\x7fELF\x02\x01") else None
    )
    if machine is None:
        return None
    needed = [(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)]
    return _Supervisor(path, machine, max(needed, default=(2, 0)) if _has_interpreter(content) else None)


def _has_interpreter(content: bytes) -> bool:
    """Whether an ELF file names a program that loads its libraries (PT_INTERP); a static one does not."""
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    return any(struct.unpack_from("<I", content, start + size * each)[0] == _PT_INTERP for each in range(count))


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
