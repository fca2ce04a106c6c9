"""The bar of a set-up moves while anything goes on: one large package is fetched, or pip installs them all."""

import time
from pathlib import Path

import pytest

from deploy.pip_progress import FETCHED_PART, Progress, packages_of, pinned


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_large_package_shows_its_size_and_how_long_it_takes(tmp_path: Path, clock: list[float]) -> None:
    progress = Progress({"numpy", "rich"}, tmp_path)
    progress.hear("Collecting numpy==2.3.5 (from -r requirements-server.lock (line 1))\n")
    progress.hear("  Downloading numpy-2.3.5-cp311-cp311-manylinux_2_27_x86_64.whl (16.9 MB)\n")
    clock[0] += 7
    assert progress.shown() == (FETCHED_PART / 2, "1 of 2 packages: numpy, 16.9 MB, 7 s")


def test_what_is_installed_already_counts_as_fetched_and_not_as_installed(tmp_path: Path, clock: list[float]) -> None:
    (tmp_path / "rich-14.0.dist-info").mkdir()
    progress = Progress({"numpy", "rich"}, tmp_path)
    progress.hear("Requirement already satisfied: rich==14.0\n")
    progress.hear("Collecting numpy==2.3.5\n")
    assert progress.shown()[0] == FETCHED_PART
    progress.hear("Installing collected packages: numpy, mako\n")
    assert progress.shown() == (FETCHED_PART, "installing 0 of 2 packages, 0 s")
    (tmp_path / "numpy-2.3.5.dist-info").mkdir()
    part, said = progress.shown()
    assert (FETCHED_PART < part < 1, said) == (True, "installing 1 of 2 packages, 0 s")


def test_a_package_that_two_files_pin_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.lock").write_text("rich==14.0 \\\n    --hash=sha256:00\nmako==1.3\n")
    (tmp_path / "b.lock").write_text("rich==14.0 \\\n    --hash=sha256:00\n")
    assert pinned(["install", "-r", str(tmp_path / "a.lock"), "-r", str(tmp_path / "b.lock")]) == {"rich", "mako"}


def test_packages_are_counted_where_they_go(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    assert packages_of(["--python", str(tmp_path / "bin/python"), "install"]) == packages
    assert (packages_of(["install"]) / "pip").is_dir()
