"""What is in a wheel and in a source package: the built pages too, which git does not have."""

import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from corral.api.pages.files import PageFiles

ROOT = Path(__file__).parents[2]
INDEX = "corral/pages/index.html"


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


def test_a_source_package_has_the_pages_and_what_they_are_made_of(built: Path) -> None:
    (package,) = built.glob("*.tar.gz")
    with tarfile.open(package) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {f"src/{INDEX}", "web/package-lock.json", "web/src/main.tsx", "deploy/build_pages.py"} <= names
    assert not [name for name in names if "node_modules" in name]
