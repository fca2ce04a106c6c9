"""The image that deploy/Containerfile makes, with a real Docker, on a base of this machine's own Python."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.build_image import UID, make_context
from tests.docker.daemon import DockerDaemon, docker_daemon, why_no_dockerd

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(why_no_dockerd() is not None, reason=str(why_no_dockerd())),
]
BASE, TAG = "test/python:1", "test/corral:1"
LIBRARIES = (
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libpthread.so.0",
    "librt.so.1",
    "libdl.so.2",
    "libutil.so.1",
    "libm.so.6",
)
"""What packages are linked to besides."""

PROGRAMS = ("sh", "env", "mkdir", "cp", "cat")


def write_base(path: Path) -> None:
    """Python, a shell and what the chart calls, with their libraries, as `docker import` takes it."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}").resolve()
    files = {"usr/local/bin/python3": python}
    for name in PROGRAMS:
        program = shutil.which(name)
        assert program is not None
        files[f"usr/bin/{name}"] = Path(program).resolve()
        files[f"bin/{name}"] = Path(program).resolve()
    for binary in (*list(files.values()), *stdlib.glob("lib-dynload/*.so")):
        libraries = subprocess.run(["ldd", binary], capture_output=True, text=True).stdout
        files |= {library.lstrip("/"): Path(library).resolve() for library in re.findall(r"/\S+", libraries)}
    for name in LIBRARIES:
        found = sorted(Path("/usr/lib").rglob(name))
        files |= {f"usr/lib/{name}": found[0].resolve()} if found else {}
    with tarfile.open(path, "w") as image:
        for name, file in files.items():
            image.add(file, name)
        unwanted = re.compile(r"/(test|tests|site-packages|__pycache__|idlelib|config-[^/]*)$")
        into = f"usr/local/lib/{stdlib.name}"
        image.add(stdlib, into, filter=lambda one: None if unwanted.search(one.name) else one)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DockerDaemon, Path]]:
    directory = tmp_path_factory.mktemp("image")
    context = directory / "context"
    try:
        make_context(context)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"packages cannot be fetched here: {error}")
    home = tmp_path_factory.mktemp("docker")
    with docker_daemon(home) as daemon:
        write_base(directory / "base.tar")
        daemon.docker("import", str(directory / "base.tar"), BASE)
        yield daemon, context


def build(daemon: DockerDaemon, context: Path) -> list[str]:
    """The layers of an image that is built anew."""
    words = ("--no-cache", "--network=none", f"--build-arg=BASE={BASE}", f"--tag={TAG}")
    daemon.docker("build", *words, f"--file={context / 'Containerfile'}", str(context))
    (found,) = json.loads(daemon.docker("image", "inspect", TAG))
    assert found["Config"]["User"] == f"{UID}:{UID}"
    layers: list[str] = found["RootFS"]["Layers"]
    return layers


def test_it_runs_as_its_own_user_on_a_read_only_root_and_is_built_the_same_again(
    built: tuple[DockerDaemon, Path],
) -> None:
    daemon, context = built
    assert build(daemon, context) == build(daemon, context)
    restricted = ("run", "--rm", "--read-only", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges")
    assert daemon.docker(*restricted, TAG, "--version").startswith("corral 0.1.0")
    shell = (
        *restricted,
        "--tmpfs=/var/lib/corral:mode=2770,gid=10001,uid=0",
        "--tmpfs=/tmp",
        "--entrypoint=sh",
        TAG,
        "-ec",
    )
    starts = 'mkdir -p "$CORRAL_HOME"; corral up --detach --mock >/dev/null; corral status; corral down'
    said = daemon.docker(*shell, starts)
    assert "free" in said
    daemon.docker(*shell, "python3 -c 'import grpc, numpy'")
