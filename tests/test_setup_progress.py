"""What `make setup` shows while it installs."""

import os
import pty
import subprocess
import sys
from pathlib import Path

PROGRESS = Path(__file__).parent.parent / "deploy" / "pip_progress.py"


def test_a_bar_counts_packages_and_goes_away(tmp_path: Path) -> None:
    locked = tmp_path / "locked.txt"
    locked.write_text("pytest==999 ; sys_platform == 'win32'\npsutil==999 ; sys_platform == 'win32'\n")
    terminal, other_end = pty.openpty()
    subprocess.run([sys.executable, PROGRESS, "install", "-r", locked], stderr=other_end, check=True)
    os.close(other_end)
    shown = os.read(terminal, 65536)
    os.close(terminal)
    assert b"2 of 2 packages: psutil" in shown
    assert shown.endswith(b"\r\033[2K")


def test_what_pip_says_is_shown_where_it_fails(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(PROGRESS),
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
