"""The bar of a set-up moves while anything goes on: one large package is fetched, or pip installs them all."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy import pip_progress
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


def test_a_bar_counts_packages_and_goes_away(tmp_path: Path) -> None:
    locked = tmp_path / "locked.txt"
    locked.write_text("pytest==999 ; sys_platform == 'win32'\npsutil==999 ; sys_platform == 'win32'\n")
    terminal, other_end = pty.openpty()
    subprocess.run([sys.executable, pip_progress.__file__, "install", "-r", locked], stderr=other_end, check=True)
    os.close(other_end)
    shown = os.read(terminal, 65536)
    os.close(terminal)
    assert b"2 of 2 packages: psutil" in shown
    assert shown.endswith(b"\r\033[2K")


def test_what_pip_says_is_shown_where_it_fails(tmp_path: Path) -> None:
    command = [
        sys.executable,
        pip_progress.__file__,
        "install",
        "--require-hashes",
        "--no-index",
        "-r",
        str(tmp_path / "locked.txt"),
    ]
    (tmp_path / "locked.txt").write_text("no-such-package==1\n")
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "no-such-package" in failed.stderr
    assert "\033" not in failed.stderr
