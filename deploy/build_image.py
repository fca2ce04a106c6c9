"""Builds the image of Corral with Docker: `make image`, or

    python deploy/build_image.py [--tag corral:0.1.0] [--base python:3.11-slim-bookworm] [--context DIRECTORY]

Everything in it comes from this checkout and requirements-server.lock, with gRPC for agents from requirements.lock, all
by hash. Its base must have the Python of this program, and glibc. With --context the files are put together, and no
image is built. Only the standard library and pip.
"""

import argparse
import compileall
import py_compile
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOR_AGENTS = ("grpcio", "protobuf")
UID = 10001
MOMENT_S = 1_700_000_000
"""When all files were changed, as the image tells: what is the same has the same layers."""

FILES = {
    "etc/passwd": f"root:x:0:0:root:/root:/bin/sh\ncorral:x:{UID}:{UID}:Corral:/var/lib/corral:/bin/sh\n",
    "etc/group": f"root:x:0:\ncorral:x:{UID}:\n",
    "opt/corral/bin/corral": "#!/usr/bin/env python3\nimport sys\n\nfrom corral.cli import main\n\nsys.exit(main())\n",
}


def make_context(into: Path) -> None:
    """Put together what the image has. `into` is emptied first."""
    shutil.rmtree(into, ignore_errors=True)
    root = into / "root"
    packages = root / "opt/corral/packages"
    packages.mkdir(parents=True)
    agents = into / "agents.lock"
    agents.write_text("".join(_pinned(ROOT / "requirements.lock", name) for name in FOR_AGENTS))
    locks = [f"--requirement={ROOT / 'requirements-server.lock'}", f"--requirement={agents}"]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "install",
        "--no-deps",
        "--no-compile",
    ]
    pip += [f"--target={packages}", "--only-binary", ":all:"]
    subprocess.run([*pip, "--require-hashes", *locks], check=True)
    wheels = into / "wheels"
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels], cwd=ROOT, check=True)
    subprocess.run([*pip, "--no-index", *map(str, wheels.glob("*.whl"))], check=True)
    shutil.rmtree(wheels)
    agents.unlink()
    # Programs of packages, which name the Python of this machine, and where wheels lay here.
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for told in packages.glob("*.dist-info/direct_url.json"):
        told.unlink()
    # The file system of a container may be read-only, and compiling anew would make each command slow.
    compileall.compile_dir(
        packages, quiet=2, stripdir=str(packages), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if "/bin/" in name else 0o644)
    shutil.copy(ROOT / "deploy/Containerfile", into / "Containerfile")
    with tarfile.open(into / "corral.tar", "w") as packed:
        for path in sorted(root.rglob("*")):
            packed.add(path, path.relative_to(root).as_posix(), recursive=False, filter=_of_root)
    shutil.rmtree(root)


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = MOMENT_S
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _pinned(lock: Path, name: str) -> str:
    """The lines of a package in a lock file."""
    found = re.search(rf"^{name}==.*(?:\n    .*)*\n", lock.read_text(), re.MULTILINE)
    assert found is not None, f"{lock.name} has no {name}"
    return found[0]


def main() -> int:
    """Build the image, or put together what it has."""
    parser = argparse.ArgumentParser(description="Build the image of Corral.")
    parser.add_argument("--tag", default="corral:0.1.0")
    parser.add_argument("--base", default=f"python:{sys.version_info.major}.{sys.version_info.minor}-slim-bookworm")
    parser.add_argument("--context", type=Path, help="put the files together there, and build nothing")
    given = parser.parse_args()
    context = given.context or ROOT / "build/image"
    make_context(context)
    if given.context is None:
        words = ["build", "--network=none", f"--build-arg=BASE={given.base}", f"--tag={given.tag}"]
        subprocess.run(["docker", *words, f"--file={context / 'Containerfile'}", str(context)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
