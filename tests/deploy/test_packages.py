"""What is in a wheel and in a source package: the built pages too and the compiled supervisor, which git lacks."""

import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from corral.features.dashboard.page_files import PageFiles
from deploy.version import version

ROOT = Path(__file__).parents[2]
INDEX = "corral/pages/index.html"
SUPERVISOR = "corral/host/runtimes/process/native/corral-supervisor"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PageFiles().built:
        pytest.skip("the pages are not built: make web")
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", directory], cwd=ROOT, check=True, timeout=120)
    return directory


def test_a_wheel_has_the_pages_as_they_were_built(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with ZipFile(wheel) as packed:
        names = packed.namelist()
        assert packed.read(INDEX) == (ROOT / "src" / INDEX).read_bytes()
    assert any(name.startswith("corral/pages/assets/") and name.endswith(".js.gz") for name in names)
    assert not [name for name in names if "node_modules" in name or name.startswith("web/")]


def test_a_wheel_has_the_documents_for_users_and_no_others(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with ZipFile(wheel) as packed:
        names = {name.removeprefix("corral/docs/") for name in packed.namelist() if name.startswith("corral/docs/")}
    assert names == {path.name for path in (ROOT / "docs").glob("*.md")} | {"README.md"}


def test_a_source_package_has_the_pages_and_what_they_are_made_of(built: Path) -> None:
    (package,) = built.glob("*.tar.gz")
    with tarfile.open(package) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {f"src/{INDEX}", "web/package-lock.json", "web/src/main.tsx", "deploy/build_pages.py"} <= names
    assert not [name for name in names if "node_modules" in name]


def test_a_wheel_has_the_supervisor_that_was_compiled_and_is_for_this_platform_alone(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert sysconfig.get_platform().replace("-", "_").replace(".", "_") in wheel.name
    with ZipFile(wheel) as packed:
        assert packed.getinfo(SUPERVISOR).external_attr >> 16 & 0o111 == 0o111
        assert not [name for name in packed.namelist() if name.endswith((".c", ".h"))]


def test_a_source_package_has_what_the_supervisor_is_made_of(built: Path) -> None:
    (package,) = built.glob("*.tar.gz")
    with tarfile.open(package) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    native = (ROOT / "src" / SUPERVISOR).parent
    sources = {str(path.relative_to(ROOT)) for path in native.glob("*.[ch]")}
    assert len(sources) > 10
    assert sources | {"deploy/build_supervisor.py"} <= names
    assert f"src/{SUPERVISOR}" not in names


def test_both_say_the_commit_and_what_is_built_of_a_source_package_says_the_same(built: Path, tmp_path: Path) -> None:
    (wheel,), (package,) = built.glob("*.whl"), built.glob("*.tar.gz")
    said = wheel.name.split("-")[1]
    assert package.name == f"corral-{said}.tar.gz"
    assert said.removesuffix(".dirty") == version(ROOT).removesuffix(".dirty"), (
        "other tests may have files here meanwhile"
    )
    with tarfile.open(package) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=source, check=True, timeout=120)
    (again,) = (source / "dist").glob("*.whl")
    for one in (wheel, again):
        with ZipFile(one) as packed_wheel:
            assert packed_wheel.read("corral/version.txt").decode() == f"{said}\n"
    assert again.name == wheel.name
